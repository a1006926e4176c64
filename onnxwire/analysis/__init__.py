"""Analyses of models for people: paths, listings, summaries, statistics, differences."""
