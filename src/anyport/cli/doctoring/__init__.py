"""What `anyport doctor` looks at, one file for each area: facts are gathered, findings follow."""
