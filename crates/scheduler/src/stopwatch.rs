//! Measures how long plugins work. The caller provides the clock.

use std::sync::Arc;

/// A plugin in one of its roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `ProfilePicker`, `Filter`, `Scorer`, `Picker`, `Admission`; of a producer, `DataProducer` for what it finds and `PreRequest` for
    /// what it learns.
    pub extension_point: &'static str,
    /// The plugin's type.
    pub plugin_type: String,
    /// The plugin's name.
    pub plugin_name: String,
}

/// Runs a plugin's work and measures its time.
pub trait Stopwatch: Send + Sync {
    /// Calls `work` once.
    fn time(&self, work: &mut dyn FnMut());

    /// Calls `work` once, inside of [`Self::time`]. Its time does not count.
    fn exclude(&self, work: &mut dyn FnMut());
}

/// The times of a producer.
pub(crate) struct ProducerTimes {
    pub(crate) finds: Arc<dyn Stopwatch>,
    pub(crate) learns: Arc<dyn Stopwatch>,
}

/// Does a part of a plugin's work that does not count, because other plugins do it.
pub(crate) fn without_timing<T>(watch: Option<&Arc<dyn Stopwatch>>, work: impl FnOnce() -> T) -> T {
    match watch {
        Some(watch) => result_of(work, |work| watch.exclude(work)),
        None => work(),
    }
}

/// Does a plugin's work, timed where somebody watches.
pub(crate) fn timed<T>(watch: Option<&Arc<dyn Stopwatch>>, work: impl FnOnce() -> T) -> T {
    match watch {
        Some(watch) => result_of(work, |work| watch.time(work)),
        None => work(),
    }
}

/// Returns the result of work that `call` runs. A stopwatch returns nothing itself, so that it can be a trait object.
fn result_of<T>(work: impl FnOnce() -> T, call: impl FnOnce(&mut dyn FnMut())) -> T {
    let (mut work, mut result) = (Some(work), None);
    call(&mut || result = work.take().map(|work| work()));
    result.expect("a stopwatch calls its work once")
}
