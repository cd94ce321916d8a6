//! Values of labels that clients choose. Their number is bounded, so that clients cannot make series without end.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// The most distinct values of a label that clients choose. Further values share one series.
const MAX_VALUES: usize = 1000;

/// The longest value of such a label. Longer values count as [`OTHER`].
const MAX_VALUE: usize = 256;
/// The label value for everything beyond these limits.
const OTHER: &str = "other";

/// A value of a label that clients choose. Clones share the text. Its number stands for it where values of the same
/// [`LabelValues`] are compared, because each request looks up some twenty series.
#[derive(Debug, Clone)]
pub(crate) struct LabelValue {
    number: usize,
    text: Arc<str>,
}

/// The values of a label that clients choose, with their numbers.
#[derive(Debug, Default)]
pub(super) struct LabelValues(Mutex<BTreeMap<Arc<str>, usize>>);

// === impl LabelValue ===

impl LabelValue {
    pub(super) fn other() -> Self {
        Self { number: 0, text: OTHER.into() }
    }
}

impl std::ops::Deref for LabelValue {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for LabelValue {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for LabelValue {}

impl Hash for LabelValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl EncodeLabelValue for LabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&&*self.text, encoder)
    }
}

// === impl LabelValues ===

impl LabelValues {
    /// Returns the value for this text, or `other` if the text or the list is too long.
    pub(super) fn label(&self, value: &str) -> LabelValue {
        if value.len() > MAX_VALUE || value == OTHER {
            return LabelValue::other();
        }
        let mut known = self.0.lock();
        if let Some((text, number)) = known.get_key_value(value) {
            return LabelValue { number: *number, text: text.clone() };
        }
        let (text, number) = (Arc::from(value), known.len() + 1);
        if number > MAX_VALUES {
            return LabelValue::other();
        }
        known.insert(Arc::clone(&text), number);
        LabelValue { number, text }
    }
}
