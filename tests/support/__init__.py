"""What tests share: servers and proxies, visitors and pages, and looks behind the engine's back."""
