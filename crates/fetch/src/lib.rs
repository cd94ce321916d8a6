//! Model download into a folder: the storage initializer.
