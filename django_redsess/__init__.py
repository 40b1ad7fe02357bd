"""Django sessions in Redis or Valkey that know who is signed in, and can be ended at once."""
