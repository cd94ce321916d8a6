//! Measures how long plugins work. The caller provides the clock.

use std::sync::Arc;

use crate::{
    context::{Candidate, Context},
    error::ScheduleError,
    plugin::{Admitter, Filter, Picker, Scorer},
};

/// A plugin in one of its roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `ProfilePicker`, `Filter`, `Scorer`, `Picker`, `Admission`; of a producer, `DataProducer` for what it finds and `PreRequest` for what it learns.
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

/// A plugin whose work is measured.
pub(crate) struct TimedPlugin<P: ?Sized> {
    pub(crate) plugin: Arc<P>,
    pub(crate) watch: Arc<dyn Stopwatch>,
}

/// The times of a producer.
pub(crate) struct ProducerTimes {
    pub(crate) finds: Arc<dyn Stopwatch>,
    pub(crate) learns: Arc<dyn Stopwatch>,
}

/// Does a part of a plugin's work that does not count, because other plugins do it.
pub(crate) fn excluded<T>(watch: Option<&Arc<dyn Stopwatch>>, work: impl FnOnce() -> T) -> T {
    let Some(watch) = watch else { return work() };
    let (mut work, mut made) = (Some(work), None);
    watch.exclude(&mut || made = work.take().map(|work| work()));
    made.expect("a stopwatch calls its work once")
}

/// Does a plugin's work, timed where somebody watches.
pub(crate) fn timed<T>(watch: Option<&Arc<dyn Stopwatch>>, work: impl FnOnce() -> T) -> T {
    let Some(watch) = watch else { return work() };
    let (mut work, mut made) = (Some(work), None);
    watch.time(&mut || made = work.take().map(|work| work()));
    made.expect("a stopwatch calls its work once")
}

impl Admitter for TimedPlugin<dyn Admitter> {
    fn admit(&self, context: &Context<'_>) -> Result<(), ScheduleError> {
        timed(Some(&self.watch), || self.plugin.admit(context))
    }
}

impl Filter for TimedPlugin<dyn Filter> {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        self.watch.time(&mut || self.plugin.filter(context, candidates));
    }
}

impl Scorer for TimedPlugin<dyn Scorer> {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        self.watch.time(&mut || self.plugin.score(context, candidates, scores));
    }
}

impl Picker for TimedPlugin<dyn Picker> {
    fn pick(&self, context: &Context<'_>, scored: Vec<(Candidate, f64)>) -> Vec<Candidate> {
        let (mut scored, mut picked) = (Some(scored), Vec::new());
        self.watch.time(&mut || {
            if let Some(scored) = scored.take() {
                picked = self.plugin.pick(context, scored);
            }
        });
        picked
    }
}
