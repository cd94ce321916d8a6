//! `session-affinity-filter` (alpha): keeps the endpoint that served the session before, if it is still a candidate.

use crate::{prelude::*, scorers::session_affinity::SessionAffinity};

struct SessionFilter(SessionAffinity);

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    SessionAffinity::read(parameters, builder).map(|affinity| Plugin::filter(SessionFilter(affinity)))
}

impl Filter for SessionFilter {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        if let Some(found) = self.0.find(context, candidates) {
            *candidates = vec![found];
        }
    }
}
