"""From layers to a plan: recording, the declared net, passes, memory."""
