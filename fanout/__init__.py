"""The write side: relays outbox events and pushes post ids into followers' feeds."""
