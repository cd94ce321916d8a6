//! The checks of an installation. A check comes after those on which it depends.

mod api_keys;
mod conditions;
pub(crate) mod controller;
pub(crate) mod definitions;
pub(crate) mod installation;
pub(crate) mod leader;
mod models;
mod paths;
pub(crate) mod platform;
mod presets;
pub(crate) mod rights;
mod routing;
mod services;
pub(crate) mod webhooks;

use crate::{facts::Facts, finding::Finding};

/// Examines facts, and adds findings.
type Check = fn(&Facts, &mut Vec<Finding>);

/// All checks.
pub(crate) const ALL: [Check; 12] = [
    definitions::check,
    controller::check,
    leader::check,
    rights::check,
    webhooks::check,
    platform::check,
    presets::check,
    services::check,
    models::check,
    routing::check,
    api_keys::check,
    paths::check,
];
