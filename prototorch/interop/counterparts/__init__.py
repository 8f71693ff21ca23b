"""What other systems have for our layers: a folder a system, a file a family of layers, a row a layer; each row is
read in both directions."""
