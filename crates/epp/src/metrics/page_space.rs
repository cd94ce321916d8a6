//! The space of series with labels that clients choose, on the metrics page. Dashboards and autoscalers read no page of more
//! than 4 MiB, so combinations of labels have series of their own only while there is space.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    label_value::LabelValue,
    labels::{Models, RequestLabels},
};

/// The space of all counters and gauges of requests.
pub(super) const MAX_COUNTER_BYTES: usize = 768 << 10;
/// The space of all histograms of requests.
pub(super) const MAX_HISTOGRAM_BYTES: usize = 3 << 20;
/// An average line of a request's series without its values, in bytes.
const LINE_BYTES: usize = 120;

/// Series that come together: their name, and their lines on the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesGroup(pub(super) &'static str, pub(super) usize);

/// Space on the page. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct PageSpace(Arc<Mutex<Used>>);

#[derive(Debug)]
struct Used {
    limit: usize,
    bytes: usize,
    known: HashMap<&'static str, HashSet<RequestLabels>>,
}

impl PageSpace {
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Used { limit, bytes: 0, known: HashMap::new() })))
    }

    /// Returns the labels under which these series are kept. What has no space counts as the model's `other` flow, and without
    /// space for this as `other`. A refused combination stays refused, so gauges go up and down under the same labels.
    #[expect(
        clippy::mutable_key_type,
        reason = "values are hashed and compared by their numbers, which stay"
    )]
    pub(super) fn labels(&self, labels: &RequestLabels, group: SeriesGroup) -> RequestLabels {
        let SeriesGroup(name, lines) = group;
        let used = &mut *self.0.lock();
        let known = used.known.entry(name).or_default();
        let of_model = RequestLabels { fairness_id: LabelValue::other(), ..labels.clone() };
        // Flows may take three quarters. So a model has series even if clients have made up many flows of another one.
        for (labels, limit) in [(labels, used.limit / 4 * 3), (&of_model, used.limit)] {
            let bytes = lines * (LINE_BYTES + labels.bytes());
            if known.contains(labels) {
                return labels.clone();
            }
            if used.bytes + bytes <= limit {
                used.bytes += bytes;
                known.insert(labels.clone());
                return labels.clone();
            }
        }
        let models = Models { model_name: LabelValue::other(), target_model_name: LabelValue::other() };
        RequestLabels { models, ..of_model }
    }

    /// As [`PageSpace::labels`], for histograms. They have no name of a model that no endpoint has served.
    pub(super) fn of_served(&self, labels: &RequestLabels, group: SeriesGroup) -> RequestLabels {
        let models = Models {
            model_name: labels.models.model_name.if_served(),
            target_model_name: labels.models.target_model_name.if_served(),
        };
        self.labels(&RequestLabels { models, ..labels.clone() }, group)
    }
}

impl RequestLabels {
    /// The length of the values on the page.
    fn bytes(&self) -> usize {
        let Models { model_name, target_model_name } = &self.models;
        model_name.bytes() + target_model_name.bytes() + self.fairness_id.bytes()
    }
}
