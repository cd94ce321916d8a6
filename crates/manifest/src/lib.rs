//! Reads Kubernetes manifests, and records the position of every field.
//!
//! Inputs are files, folders and standard input, each with one or more YAML or JSON documents. `kind: List` is split into its
//! items, which covers the output of `kustomize build` and `kubectl get -o yaml`. Lines and columns come from the YAML
//! parser, so they are right in flow style, below aliases and in JSON too.

pub mod parallel;

mod block;
mod document;
mod error;
mod limits;
mod node;
mod parse;
mod path;
mod place;
mod read;
mod syntax;
#[cfg(test)]
mod tests;

pub use document::Document;
pub use error::ManifestError;
pub use limits::{MAX_BYTES, MAX_DEPTH};
pub use parse::{ParseOutput, Unapplied, parse, parse_all, yaml_error};
pub use place::{FieldLocation, Position};
pub use read::{read, read_all};
