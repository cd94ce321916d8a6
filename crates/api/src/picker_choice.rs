//! Reads which picker a service asks for.

use std::collections::BTreeMap;

use crate::{
    annotations::PICKER,
    shared_picker::{OWN, SHARED},
};

/// Which picker a service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickerChoice {
    /// Pods of its own pick, also where the platform shares a picker.
    Own,
    /// The shared picker picks, if the platform has one.
    Shared,
}

// === impl PickerChoice ===

impl PickerChoice {
    /// Returns the choice in the annotations of a service, or `None` if the setting of the platform decides. Validation refuses
    /// other words.
    pub fn of_annotations(annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        match annotations?.get(PICKER)?.as_str() {
            OWN => Some(Self::Own),
            SHARED => Some(Self::Shared),
            _ => None,
        }
    }
}
