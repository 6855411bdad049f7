//! The client against servers that behave, and against one that does not.
