//! `predicted-latency-producer`: asks a predictor for the latency of a request on each candidate, and trains it.

use std::time::Duration;

use longboat_api::picker_plugins::LATENCY_PRODUCER;
use serde_json::Value;

use super::encoder_cache;
use crate::{builder::Predictor, latency::LatencySettings, prelude::*};

parameters! {
    struct RawParameters {
        // The reference no longer predicts while a response streams, and takes these two without effect.
        #[serde(rename = "samplingMean")]
        _sampling_mean: Option<f64>,
        #[serde(rename = "maxDecodeTokenSamplesForPrediction")]
        _max_decode_token_samples_for_prediction: Option<u64>,
        slo_buffer_factor: f64 = 1.0,
        #[serde(rename = "contextTTL")]
        context_ttl: Option<Value>,
        streaming_mode: bool,
        endpoint_role_label: String,
        predict_in_produce: bool = true,
        prefix_match_info_producer_name: Option<String>,
        in_flight_load_producer_name: Option<String>,
        use_encoder_cache_features: bool,
        encoder_cache_match_info_producer_name: Option<String>,
    }
}

/// The longest response that is used for training.
const MAX_RESPONSE_DURATION: Duration = Duration::from_mins(5);

/// The producer that is created if one is needed and none is declared.
fn usual(name: &str) -> LatencySettings {
    LatencySettings {
        name: name.to_owned(),
        streaming: false,
        predict: true,
        max_response: MAX_RESPONSE_DURATION,
        slo_buffer: 1.0,
        role_label: None,
        prefix: 0,
        encoder_cache: None,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.above_zero("sloBufferFactor", raw.slo_buffer_factor)?;
    if let Some(other) = &builder.latency {
        return Err(parameters.invalid(
            "",
            format!(
                "there may be one predicted-latency-producer, and there is {} already",
                other.settings.name
            ),
        ));
    }
    let settings = LatencySettings {
        streaming: raw.streaming_mode,
        predict: raw.predict_in_produce,
        max_response: time(parameters, raw.context_ttl.as_ref())?,
        slo_buffer: raw.slo_buffer_factor,
        role_label: Some(raw.endpoint_role_label).filter(|label| !label.is_empty()),
        ..usual(parameters.name)
    };
    // Without the features, the reference reads no name either.
    let encoder_cache = raw.encoder_cache_match_info_producer_name.filter(|_| raw.use_encoder_cache_features);
    builder.latency = Some(Predictor {
        settings,
        prefix: raw.prefix_match_info_producer_name,
        encoder_cache: raw.use_encoder_cache_features.then(|| encoder_cache.unwrap_or_default()),
    });
    if let Some(load) = raw.in_flight_load_producer_name {
        builder.wanted_loads.push((parameters.name.to_owned(), load));
    }
    Ok(Plugin::default())
}

/// Checks a reference to the producer of predicted latencies. Without a name, a default producer is created if none is
/// declared.
pub(crate) fn require(
    builder: &mut Builder,
    parameters: &Parameters<'_>,
    producer: Option<&str>,
) -> Result<(), ConfigError> {
    let wanted = producer.filter(|name| !name.is_empty() && *name != LATENCY_PRODUCER);
    let declared = builder.latency.as_ref().map(|latency| latency.settings.name.as_str());
    match (wanted, declared) {
        (Some(wanted), declared) if declared != Some(wanted) => Err(parameters.unknown_reference(
            "latencyPredictionInfoProducerName",
            wanted,
            "a declared predicted-latency-producer",
            declared,
        )),
        (None, None) => {
            let settings = usual(LATENCY_PRODUCER);
            builder.latency = Some(Predictor { settings, prefix: None, encoder_cache: None });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Finds the producers that the predictor reads. Called when all producers are known.
pub(crate) fn settle(builder: &mut Builder) -> Result<(), ConfigError> {
    let Some(mut latency) = builder.latency.take() else { return Ok(()) };
    let name = latency.settings.name.clone();
    let parameters = Parameters::undeclared(&name);
    latency.settings.prefix = builder.prefix(&parameters, latency.prefix.as_deref())?;
    if let Some(producer) = &latency.encoder_cache {
        let field = "encoderCacheMatchInfoProducerName";
        latency.settings.encoder_cache =
            Some(encoder_cache::place(builder, &parameters, field, Some(producer))?);
    }
    builder.latency = Some(latency);
    Ok(())
}

/// Reads a duration as a string, or as a number of nanoseconds as in Go.
fn time(parameters: &Parameters<'_>, value: Option<&Value>) -> Result<Duration, ConfigError> {
    let nanos = |value: &Value| value.as_u64().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
    match value {
        None | Some(Value::Null) => Ok(MAX_RESPONSE_DURATION),
        Some(Value::String(text)) => parameters.duration("contextTTL", text),
        Some(value) => nanos(value).ok_or_else(|| {
            let expected = "expected a duration such as 5m, or a number of nanoseconds above 0";
            parameters.invalid("contextTTL", format!("{expected}, found {value}"))
        }),
    }
}
