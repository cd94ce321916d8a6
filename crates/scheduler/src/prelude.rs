//! What plugins are made of: `use crate::prelude::*` is all that most files of plugins import.

pub(crate) use serde::Deserialize;

pub(crate) use crate::{
    builder::Builder,
    context::Context,
    decision::{Decision, HandlerResult, ProfileRun},
    endpoint::{Candidate, Slot, Snapshot},
    error::{ConfigError, ScheduleError},
    finding::Finding,
    listing::Listing,
    numbers::float,
    parameters::{NoParameters, Parameters, parameters},
    plugin::{Decider, Plugin, ProfileHandler},
    prefixes::PrefixSource,
    producer::{Producer, ProducerState},
    profile::{Filter, Picker, Scorer},
    request::Request,
    run::Run,
};
