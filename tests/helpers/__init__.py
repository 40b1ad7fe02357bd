"""What tests share: fixtures, the site that they visit, the oracle, servers, browsers."""
