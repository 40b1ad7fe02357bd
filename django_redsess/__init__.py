"""Django sessions in Redis or Valkey that know who is online, and can be ended at once."""
