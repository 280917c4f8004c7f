"""Which image comes when: from a step's number to record keys."""
