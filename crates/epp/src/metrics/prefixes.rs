//! Metrics of prefix producers: the size of their indexes, and the cached share of prompts.

use longboat_metrics::{Buckets, labels};
use longboat_scheduler::{PrefixHit, Scheduler};
use prometheus_client::{
    metrics::{
        family::{Family, MetricConstructor as _},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use super::buckets::{PREFIX_BYTES, RATIO};

labels! {
    struct PluginLabels { plugin_name: String, plugin_type: String }
}

/// The series of one producer.
#[derive(Debug)]
struct Producer {
    size: Gauge,
    ratio: Histogram,
    bytes: Histogram,
}

/// The series of all producers. The former names have no labels.
#[derive(Debug)]
pub(crate) struct PrefixMetrics {
    producers: Vec<Producer>,
    former: Producer,
}

impl PrefixMetrics {
    /// Registers the series of the producers of a scheduler.
    pub(super) fn new(r: &mut Registry, scheduler: &Scheduler) -> Self {
        let sizes = Family::<PluginLabels, Gauge>::default();
        let ratios = Family::<PluginLabels, Histogram, Buckets>::new_with_constructor(Buckets(RATIO));
        let bytes = Family::<PluginLabels, Histogram, Buckets>::new_with_constructor(Buckets(PREFIX_BYTES));
        let former = Producer {
            size: Gauge::default(),
            ratio: Buckets(RATIO).new_metric(),
            bytes: Buckets(PREFIX_BYTES).new_metric(),
        };
        let help = "Prompt prefixes that the picker remembers";
        r.register("llm_d_epp_prefix_indexer_size", help, sizes.clone());
        r.register("inference_extension_prefix_indexer_size", help, former.size.clone());
        let help = "Share of a prompt that its endpoint probably has cached";
        r.register("llm_d_epp_prefix_indexer_hit_ratio", help, ratios.clone());
        r.register("inference_extension_prefix_indexer_hit_ratio", help, former.ratio.clone());
        let help = "Bytes of a prompt that its endpoint probably has cached";
        r.register("llm_d_epp_prefix_indexer_hit_bytes", help, bytes.clone());
        r.register("inference_extension_prefix_indexer_hit_bytes", help, former.bytes.clone());
        let producer = |(name, plugin_type): (&str, &str)| {
            let labels = PluginLabels { plugin_name: name.to_owned(), plugin_type: plugin_type.to_owned() };
            Producer {
                size: sizes.get_or_create_owned(&labels),
                ratio: ratios.get_or_create_owned(&labels),
                bytes: bytes.get_or_create_owned(&labels),
            }
        };
        Self { producers: scheduler.prefix_producers().map(producer).collect(), former }
    }

    /// Sets the number of prefixes that each producer knows.
    pub(crate) fn sizes(&self, sizes: impl Iterator<Item = usize>) {
        let count = |size| i64::try_from(size).unwrap_or(i64::MAX);
        let mut all: usize = 0;
        for (producer, size) in self.producers.iter().zip(sizes) {
            producer.size.set(count(size));
            all = all.saturating_add(size);
        }
        self.former.size.set(count(all));
    }

    /// Records what the picked endpoint has cached of a prompt. The former names have what the first producer knows.
    pub(crate) fn matched(&self, hits: impl Iterator<Item = PrefixHit>) {
        for (place, hit) in hits.enumerate() {
            let former = (place == 0).then_some(&self.former);
            for producer in self.producers.get(hit.producer).into_iter().chain(former) {
                producer.bytes.observe(f64::from(hit.bytes));
                if hit.total > 0 {
                    producer.ratio.observe(f64::from(hit.matched) / f64::from(hit.total));
                }
            }
        }
    }
}
