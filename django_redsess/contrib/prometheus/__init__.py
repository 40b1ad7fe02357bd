"""Metrics for Prometheus: ``observer`` counts operations, and ``views`` has the page that shows them."""
