"""Federated training: rounds over clients, on an existing engine, with every round in a ledger."""
