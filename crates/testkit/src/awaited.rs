//! Conditions that a test waits for.

/// What a condition returns while somebody waits for it: whether it holds, or the value that there is once it holds.
pub trait Awaited {
    /// What the wait returns.
    type Value;
    /// Returns the value if the condition holds.
    fn value(self) -> Option<Self::Value>;
}

impl Awaited for bool {
    type Value = ();
    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Awaited for Option<T> {
    type Value = T;
    fn value(self) -> Self {
        self
    }
}
