//! How often requests go to endpoints that have already encoded their images, audio and videos.

use std::collections::BTreeSet;

use longboat_api::picker_plugins::ENCODER_CACHE_PRODUCER;
use longboat_metrics::{Buckets, Histograms, labels, metrics};
use longboat_scheduler::{EncoderLookup, Media, Snapshot, float};
use prometheus_client::metrics::{counter::Counter, family::Family};

use super::{buckets::RATIO, per_endpoint::PerEndpoint};

labels! {
    struct QueryLabels { plugin_type: &'static str, plugin_name: String, modality: &'static str }
    struct HitLabels { plugin_type: &'static str, plugin_name: String, pod: String, modality: &'static str }
    struct PluginLabels { plugin_type: &'static str, plugin_name: String }
}

metrics! {
    /// The series.
    #[derive(Debug)]
    pub(crate) struct EncoderCacheMetrics {
        queries: Family<QueryLabels, Counter>
            => "llm_d_epp_encoder_cache_queries", "Images, audio and videos of requests that the picker looked up";
        hits: PerEndpoint<HitLabels, Counter> = PerEndpoint::new()
            => "llm_d_epp_encoder_cache_hits",
            "Images, audio and videos of requests that an endpoint probably has encoded";
        ratios: Histograms<PluginLabels> = Family::new_with_constructor(Buckets(RATIO))
            => "llm_d_epp_encoder_cache_hit_ratio",
            "Share of a request's images, audio and videos that an endpoint probably has encoded";
    }
}

impl EncoderCacheMetrics {
    pub(super) fn keep(&self, endpoints: &BTreeSet<String>) {
        self.hits.keep(endpoints);
    }

    /// Counts the lookups of a request's media.
    pub(crate) fn record_lookups<'l>(
        &self,
        media: &[Media],
        lookups: impl Iterator<Item = &'l EncoderLookup>,
        candidates: &[Snapshot],
    ) {
        for lookup in lookups {
            let plugin_name = lookup.plugin.to_string();
            for item in media {
                let modality = item.modality.name();
                let labels = QueryLabels {
                    plugin_type: ENCODER_CACHE_PRODUCER,
                    plugin_name: plugin_name.clone(),
                    modality,
                };
                self.queries.get_or_create(&labels).inc();
            }
            let labels =
                PluginLabels { plugin_type: ENCODER_CACHE_PRODUCER, plugin_name: plugin_name.clone() };
            let ratios = self.ratios.get_or_create(&labels);
            for (has, candidate) in lookup.candidates().zip(candidates) {
                let mut hits = 0_u32;
                for (_, item) in has.iter().zip(media).filter(|(has, _)| **has) {
                    hits += 1;
                    let labels = HitLabels {
                        plugin_type: ENCODER_CACHE_PRODUCER,
                        plugin_name: plugin_name.clone(),
                        pod: candidate.endpoint.full_name(),
                        modality: item.modality.name(),
                    };
                    self.hits.count(&labels.pod, &labels);
                }
                ratios.observe(f64::from(hits) / float(media.len() as u64));
            }
        }
    }
}
