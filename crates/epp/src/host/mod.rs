//! Pickers of several pools in one process: a gateway that picks itself, or a picker that pools share.
//!
//! [`spec`] says which picker a Deployment describes, [`Host`] starts and ends pickers, [`LocalPickers`] is where requests find them,
//! and [`Pages`] is where people read their metrics and decisions.

mod local;
mod pages;
mod spec;
mod tasks;

pub use self::{
    local::{LocalPicker, LocalPickers, RunningPicker},
    pages::Pages,
    spec::{PickerSpec, is_picker},
    tasks::Host,
};
