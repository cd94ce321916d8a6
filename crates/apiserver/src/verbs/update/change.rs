//! What an update does to the object.

use serde_json::Value;

use crate::{patching::PatchKind, status::ApiError};

/// The message of a conflict with another write.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The kind of change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Replaces the object by this decoded one.
    Replace(Value),
    /// Patches the object with the body of the request.
    Patch(PatchKind),
    /// Edits the object with a function of the server itself (scale, binding).
    Edit(fn(&mut Value, &Value) -> Result<(), ApiError>, Value),
}

// === impl Change ===

impl Change {
    /// Whether this is a server-side apply, which computes managedFields itself.
    pub(super) fn is_apply(&self) -> bool {
        match self {
            Self::Patch(kind) => *kind == PatchKind::Apply,
            Self::Edit(_, input) => input["applied"] == true,
            Self::Replace(_) => false,
        }
    }
}
