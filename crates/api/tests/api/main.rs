//! The API types against the recordings of the reference, and the generated CRDs against the files in `deploy/crds`.

mod crds;
mod golden;
mod types;
