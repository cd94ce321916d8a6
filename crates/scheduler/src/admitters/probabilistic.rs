//! `probabilistic-admitter`: drops more and more requests of negative priority as the pool fills up.

use crate::{plugin::Admitter, prelude::*};

parameters! {
    struct Probabilistic {
        queue_depth_threshold: f64 = 5.0,
        kv_cache_util_threshold: f64 = 0.8,
        power: f64 = 5.0,
        k: f64 = 300.0,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let admitter: Probabilistic = parameters.read()?;
    for (field, value) in [
        ("queueDepthThreshold", admitter.queue_depth_threshold),
        ("kvCacheUtilThreshold", admitter.kv_cache_util_threshold),
        ("power", admitter.power),
        ("k", admitter.k),
    ] {
        parameters.above_zero(field, value)?;
    }
    Ok(Plugin::admitter(admitter))
}

impl Probabilistic {
    /// Returns the average saturation of the candidates. An endpoint without recent metrics counts as full.
    fn saturation(&self, context: &Context<'_>) -> f64 {
        let full = context.candidates.iter().map(|snapshot| {
            let queue = snapshot.metrics.waiting / self.queue_depth_threshold;
            let cache = snapshot.metrics.kv_usage / self.kv_cache_util_threshold;
            if snapshot.fresh { queue.max(cache) } else { 1.0 }
        });
        full.sum::<f64>() / float(context.candidates.len().max(1) as u64)
    }
}

impl Admitter for Probabilistic {
    fn admit(&self, context: &Context<'_>) -> Result<(), ScheduleError> {
        if context.request.priority >= 0 {
            return Ok(());
        }
        let dropped = (self.saturation(context).powf(self.power) * self.k).min(1.0);
        if context.random_share() < dropped { Err(ScheduleError::NotAdmitted) } else { Ok(()) }
    }
}
