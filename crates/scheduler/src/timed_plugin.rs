//! Plugins whose work is measured.

use std::sync::Arc;

use crate::{
    context::Context,
    endpoint::Candidate,
    error::ScheduleError,
    plugin::Admitter,
    profile::{Filter, Picker, Scorer},
    stopwatch::{Stopwatch, timed},
};

/// A plugin whose work is measured.
pub(crate) struct TimedPlugin<P: ?Sized> {
    pub(crate) plugin: Arc<P>,
    pub(crate) watch: Arc<dyn Stopwatch>,
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
        timed(Some(&self.watch), || self.plugin.pick(context, scored))
    }
}
