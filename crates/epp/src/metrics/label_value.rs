//! Values of labels that clients choose. Their number and length are bounded, so that clients cannot make series without end.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// The most distinct values of a label that clients choose. Further values share one series.
const MAX_VALUES: usize = 1000;
/// The most flows.
pub(super) const MAX_FLOWS: usize = 500;
/// The most models that no endpoint has served yet. The first requests for a model come before the first answer, so a few are
/// counted by name. Clients can make up more.
pub(super) const MAX_UNSERVED_MODELS: usize = 10;

/// The longest value of such a label, as the page has it. Longer values count as [`OTHER`].
pub(crate) const MAX_VALUE_BYTES: usize = 160;
/// The label value for everything beyond these limits.
const OTHER: &str = "other";

/// A value of a label that clients choose. Clones share the text. Its number stands for it where values of the same
/// [`LabelValues`] are compared, because each request looks up some twenty series.
#[derive(Debug, Clone)]
pub(crate) struct LabelValue {
    number: usize,
    text: Arc<str>,
    served: Arc<AtomicBool>,
}

/// The values of a label that clients choose, with their numbers.
#[derive(Debug)]
pub(super) struct LabelValues {
    known: Mutex<Known>,
    max_unserved: usize,
}

#[derive(Debug, Default)]
struct Known {
    values: BTreeMap<Arc<str>, LabelValue>,
    served: usize,
}

// === impl LabelValue ===

impl LabelValue {
    pub(super) fn other() -> Self {
        Self { number: 0, text: OTHER.into(), served: Arc::default() }
    }

    /// Returns the value if an endpoint has served it, otherwise `other`.
    pub(super) fn if_served(&self) -> Self {
        if self.served.load(Ordering::Relaxed) { self.clone() } else { Self::other() }
    }

    /// Its length on the page.
    pub(super) fn bytes(&self) -> usize {
        bytes(&self.text)
    }
}

/// The length of a value on the page, where some characters have a backslash.
fn bytes(text: &str) -> usize {
    text.len() + text.matches(['\\', '"', '\n']).count()
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
    /// No values yet. At most `max_unserved` are kept that are not marked as served.
    pub(super) fn new(max_unserved: usize) -> Self {
        Self { known: Mutex::default(), max_unserved }
    }

    /// Returns the value for this text, or `other` if the text or the list is too long.
    pub(super) fn label(&self, value: &str) -> LabelValue {
        let known = &mut *self.known.lock();
        let unserved = known.values.len() - known.served;
        known.value(value, unserved < self.max_unserved)
    }

    /// Marks a value as served, so that clients who make up other values do not take its place.
    pub(super) fn serve(&self, value: &str) {
        let known = &mut *self.known.lock();
        let value = known.value(value, true);
        if value.number > 0 && !value.served.swap(true, Ordering::Relaxed) {
            known.served += 1;
        }
    }
}

impl Known {
    fn value(&mut self, value: &str, may_add: bool) -> LabelValue {
        if let Some(known) = self.values.get(value) {
            return known.clone();
        }
        let number = self.values.len() + 1;
        if !may_add || number > MAX_VALUES || bytes(value) > MAX_VALUE_BYTES || value == OTHER {
            return LabelValue::other();
        }
        let text: Arc<str> = value.into();
        let value = LabelValue { number, text: Arc::clone(&text), served: Arc::default() };
        self.values.insert(text, value.clone());
        value
    }
}
