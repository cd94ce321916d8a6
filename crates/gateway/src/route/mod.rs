//! Compiled routes: which request matches which rule, and what happens to it.

mod backend;
mod cors;
mod duration;
mod entrance;
mod expression;
mod filter;
mod matching;
mod parsed;
mod retry;
mod rule;
mod table;

pub use self::entrance::Entrance;
pub(crate) use self::{
    backend::{
        Backend, BackendResolver, Link, Pool, ServiceBackend, picker_missing, pool_keys, problem,
        service_keys,
    },
    cors::Cors,
    filter::Redirect,
    parsed::{ParsedRoute, RouteParser},
    rule::{Attempts, Mirror, Rule, unresolved},
    table::{Entry, Misdirection, RouteMatch, Table},
};

#[cfg(test)]
mod tests;
