//! The durations of plugins.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use longboat_api::picker_plugins;
use longboat_metrics::{Buckets, labels};
use longboat_scheduler::{Role, Scheduler, Stopwatch, config::Parser};
use prometheus_client::{
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

use super::buckets::SCHEDULING;

labels! {
    struct Labels { extension_point: &'static str, plugin_type: String, plugin_name: String }
}

/// The series of plugins.
#[derive(Debug)]
pub(crate) struct PluginMetrics {
    durations: Family<Labels, Histogram, Buckets>,
    /// The names of declared plugins, by type.
    names: BTreeMap<String, String>,
    series: OnceSeries,
    /// Where the lookups of precise prefix producers are measured too.
    lookups: Option<Histogram>,
}

/// The series of work that nobody watches. Each is looked up when it is first written, because most of this work is never done.
#[derive(Debug, Default)]
struct OnceSeries([OnceLock<Histogram>; 2 * PARSERS + PRODUCERS]);

/// Work that no stopwatch measures.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// A parser reads a request.
    ReadRequest(Parser),
    /// A parser reads a response.
    ReadResponse(Parser),
    /// A request waits for the tokens of its prompt.
    Tokens,
    /// A request waits for others with its prompt.
    Burst,
    /// A request waits for predictions.
    Prediction,
}

const PARSERS: usize = Parser::ALL.len();
/// Work that is not a parser's.
const PRODUCERS: usize = 3;

impl Work {
    /// The place of the series, its extension point, the plugin's type and the former name of the type.
    fn series(self) -> (usize, &'static str, [&'static str; 2]) {
        match self {
            Self::ReadRequest(parser) => (parser as usize, "RequestParsing", [parser.plugin_type(); 2]),
            Self::ReadResponse(parser) => {
                (PARSERS + parser as usize, "ResponseParsing", [parser.plugin_type(); 2])
            }
            Self::Tokens => (2 * PARSERS, "DataProducer", [picker_plugins::TOKEN_PRODUCER, "tokenizer"]),
            Self::Burst => (2 * PARSERS + 1, "DataProducer", ["burst-prefix-cache-producer"; 2]),
            Self::Prediction => (2 * PARSERS + 2, "DataProducer", [picker_plugins::LATENCY_PRODUCER; 2]),
        }
    }
}

impl PluginMetrics {
    pub(super) fn new(registry: &mut Registry, scheduler: &Scheduler, lookups: Option<Histogram>) -> Self {
        let durations = Family::new_with_constructor(Buckets(SCHEDULING));
        for prefix in ["llm_d_epp_", "inference_extension_"] {
            let name = format!("{prefix}plugin_duration_seconds");
            registry.register(name, "Time in a plugin", durations.clone());
        }
        let names = scheduler.declared().map(|(name, plugin_type)| (plugin_type.to_owned(), name.to_owned()));
        Self { durations, names: names.collect(), series: OnceSeries::default(), lookups }
    }

    /// Returns the stopwatch of a plugin. Its series is looked up once here, and not again for each request.
    pub(crate) fn watch(&self, role: Role) -> Arc<dyn Stopwatch> {
        let looks_up =
            role.extension_point == "DataProducer" && role.plugin_type.starts_with("precise-prefix-cache");
        let lookups = self.lookups.clone().filter(|_| looks_up);
        Arc::new(Watch { durations: self.of(role), lookups })
    }

    fn of(&self, role: Role) -> Histogram {
        let labels = Labels {
            extension_point: role.extension_point,
            plugin_type: role.plugin_type,
            plugin_name: role.plugin_name,
        };
        self.durations.get_or_create_owned(&labels)
    }

    /// Measures work that no stopwatch measures.
    pub(crate) fn observe_duration(&self, work: Work, time: Duration) {
        let (place, extension_point, types) = work.series();
        let series = self.series.0[place].get_or_init(|| {
            let declared = types.iter().find_map(|known| Some((*known, self.names.get(*known)?.as_str())));
            // A plugin that is not declared has the name of its type.
            let (plugin_type, name) = declared.unwrap_or((types[0], types[0]));
            self.of(Role {
                extension_point,
                plugin_type: plugin_type.to_owned(),
                plugin_name: name.to_owned(),
            })
        });
        series.observe(time.as_secs_f64());
    }
}

struct Watch {
    durations: Histogram,
    lookups: Option<Histogram>,
}

thread_local! {
    /// The excluded time of the plugin that works on this thread. A plugin's work never moves to another thread.
    static EXCLUDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Stopwatch for Watch {
    fn time(&self, work: &mut dyn FnMut()) {
        // Plugins call other plugins, so the excluded time of the caller is put aside.
        let outer = EXCLUDED.replace(Duration::ZERO);
        let started = Instant::now();
        work();
        let took = started.elapsed().saturating_sub(EXCLUDED.replace(outer)).as_secs_f64();
        self.durations.observe(took);
        if let Some(lookups) = &self.lookups {
            lookups.observe(took);
        }
    }

    fn exclude(&self, work: &mut dyn FnMut()) {
        let started = Instant::now();
        work();
        EXCLUDED.set(EXCLUDED.get() + started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longboat_scheduler::config::Parser;

    use super::{OnceSeries, Work};

    #[test]
    fn each_work_has_a_place_of_its_own() {
        let parsers = Parser::ALL
            .into_iter()
            .flat_map(|parser| [Work::ReadRequest(parser), Work::ReadResponse(parser)]);
        let works = parsers.chain([Work::Tokens, Work::Burst, Work::Prediction]);
        let places: BTreeSet<usize> = works.map(|work| work.series().0).collect();
        assert!(places.into_iter().eq(0..OnceSeries::default().0.len()));
    }
}
