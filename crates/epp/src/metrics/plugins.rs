//! The durations of plugins.

use std::{sync::Arc, time::Instant};

use longboat_scheduler::{Role, Stopwatch};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

use super::buckets::{Buckets, SCHEDULING};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    extension_point: &'static str,
    plugin_type: String,
    plugin_name: String,
}

/// The series of plugins.
#[derive(Debug)]
pub(crate) struct PluginMetrics(Family<Labels, Histogram, Buckets>);

impl PluginMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let durations = Family::new_with_constructor(Buckets(SCHEDULING));
        for prefix in ["llm_d_epp_", "inference_extension_"] {
            let name = format!("{prefix}plugin_duration_seconds");
            registry.register(name, "Time in a plugin", durations.clone());
        }
        Self(durations)
    }

    /// Returns the stopwatch of a plugin. Its series is looked up once here, and not again for each request.
    pub(crate) fn watch(&self, role: Role) -> Arc<dyn Stopwatch> {
        let labels = Labels {
            extension_point: role.extension_point,
            plugin_type: role.plugin_type,
            plugin_name: role.plugin_name,
        };
        Arc::new(Watch(self.0.get_or_create(&labels).clone()))
    }
}

struct Watch(Histogram);

impl Stopwatch for Watch {
    fn time(&self, work: &mut dyn FnMut()) {
        let started = Instant::now();
        work();
        self.0.observe(started.elapsed().as_secs_f64());
    }
}
