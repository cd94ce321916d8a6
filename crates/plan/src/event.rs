//! Events that planning wants to record on the service.

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// For information.
    Normal,
    /// Something that the user should act on.
    Warning,
}

/// An event about the service. The controller records each once, not on every reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Its severity.
    pub type_: EventType,
    /// A CamelCase word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl EventType {
    /// The value of an event's `type` field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
