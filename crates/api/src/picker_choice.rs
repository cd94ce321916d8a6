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

/// A word that is not a [`PickerChoice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is unknown: expected \"{OWN}\" or \"{SHARED}\"")]
pub struct UnknownPicker(pub String);

// === impl PickerChoice ===

impl PickerChoice {
    /// Returns the choice in the annotations of a service, or `None` if the setting of the platform decides.
    ///
    /// # Errors
    ///
    /// If the value is unknown.
    pub fn of_annotations(
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Result<Option<Self>, UnknownPicker> {
        match annotations.and_then(|all| all.get(PICKER)).map(String::as_str) {
            None => Ok(None),
            Some(OWN) => Ok(Some(Self::Own)),
            Some(SHARED) => Ok(Some(Self::Shared)),
            Some(other) => Err(UnknownPicker(other.chars().take(64).collect())),
        }
    }
}
