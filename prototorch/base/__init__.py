"""What everything else stands on: text for terminals, letters that look alike, files that come with the package."""
