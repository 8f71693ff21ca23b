"""The first stage: a file of any format as arrays by name, with the system that wrote them."""
