//! Measures how long plugins work. The caller provides the clock.

use std::sync::Arc;

use crate::{
    context::{Candidate, Context},
    plugin::{Filter, Picker, Scorer},
};

/// A plugin in one of its roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `Filter`, `Scorer` or `Picker`.
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
}

/// A plugin whose work is measured.
pub(crate) struct Timed<P: ?Sized> {
    pub(crate) plugin: Arc<P>,
    pub(crate) watch: Arc<dyn Stopwatch>,
}

impl Filter for Timed<dyn Filter> {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        self.watch.time(&mut || self.plugin.filter(context, candidates));
    }
}

impl Scorer for Timed<dyn Scorer> {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        self.watch.time(&mut || self.plugin.score(context, candidates, scores));
    }
}

impl Picker for Timed<dyn Picker> {
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
