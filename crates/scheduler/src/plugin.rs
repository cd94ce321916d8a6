//! A plugin, and the roles that it can have beside those in a profile.

use std::sync::Arc;

use crate::{
    context::Context,
    decision::{HandlerResult, ProfileRun},
    error::ScheduleError,
    profile::{Filter, Picker, Scorer},
    run::Run,
};

/// Decides which profiles run, and combines their results.
pub(crate) trait ProfileHandler: Send + Sync {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError>;

    /// Returns the names of the profiles that it runs by name, so that their existence can be checked.
    fn profiles(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether it runs the only profile, so that there must be one.
    fn takes_one_profile(&self) -> bool {
        false
    }
}

/// Decides whether a further stage (prefill, encode) runs for a request.
pub(crate) trait Decider: Send + Sync {
    /// `decode` is the result of the decode stage, if that ran first.
    fn decide(&self, context: &Context<'_>, decode: Option<&ProfileRun>) -> bool;
}

/// Decides whether a request is scheduled at all.
pub(crate) trait Admitter: Send + Sync {
    fn admit(&self, context: &Context<'_>) -> Result<(), ScheduleError>;
}

/// A plugin instance with its roles.
#[derive(Clone, Default)]
pub(crate) struct Plugin {
    pub(crate) filter: Option<Arc<dyn Filter>>,
    pub(crate) scorer: Option<Arc<dyn Scorer>>,
    pub(crate) picker: Option<Arc<dyn Picker>>,
    pub(crate) handler: Option<Arc<dyn ProfileHandler>>,
    pub(crate) decider: Option<Arc<dyn Decider>>,
    pub(crate) admitter: Option<Arc<dyn Admitter>>,
}

impl Plugin {
    pub(crate) fn filter(filter: impl Filter + 'static) -> Self {
        Self { filter: Some(Arc::new(filter)), ..Self::default() }
    }

    pub(crate) fn scorer(scorer: impl Scorer + 'static) -> Self {
        Self { scorer: Some(Arc::new(scorer)), ..Self::default() }
    }

    pub(crate) fn picker(picker: impl Picker + 'static) -> Self {
        Self { picker: Some(Arc::new(picker)), ..Self::default() }
    }

    pub(crate) fn handler(handler: impl ProfileHandler + 'static) -> Self {
        Self { handler: Some(Arc::new(handler)), ..Self::default() }
    }

    pub(crate) fn admitter(admitter: impl Admitter + 'static) -> Self {
        Self { admitter: Some(Arc::new(admitter)), ..Self::default() }
    }

    pub(crate) fn decider(decider: impl Decider + 'static) -> Self {
        Self { decider: Some(Arc::new(decider)), ..Self::default() }
    }
}
