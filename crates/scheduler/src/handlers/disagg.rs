//! `disagg-profile-handler`: runs decode, and also prefill or encode on other endpoints if a decider chooses so.

use std::sync::Arc;

use longboat_api::sidecar_headers;

use super::data_parallel;
use crate::{filters::role, flow::Stage, prelude::*};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    stage_order: String,
    profiles: Option<Names>,
    deciders: Option<Deciders>,
    // The flat spelling of earlier releases.
    decode_profile: Option<String>,
    prefill_profile: Option<String>,
    encode_profile: Option<String>,
    prefill_decider_plugin_name: Option<String>,
    encode_decider_plugin_name: Option<String>,
    /// Of `pd-profile-handler`.
    decider_plugin_name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageOrder {
    DecodeFirst,
    PrefillFirst,
}

impl StageOrder {
    /// Reads an order in any of the spellings that llm-d takes.
    fn read(text: &str, parameters: &Parameters<'_>) -> Result<Self, ConfigError> {
        match text.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "" | "decode" | "decodefirst" => Ok(Self::DecodeFirst),
            "prefill" | "prefillfirst" => Ok(Self::PrefillFirst),
            _ => {
                let message = format!("expected decode-first or prefill-first, found \"{text}\"");
                Err(parameters.invalid("stageOrder", message))
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Names {
    decode: Option<String>,
    prefill: Option<String>,
    encode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Deciders {
    prefill: Option<String>,
    encode: Option<String>,
}

/// Runs the stages.
pub(crate) struct Disagg {
    order: StageOrder,
    decode: String,
    prefill: String,
    encode: String,
    prefill_decider: Option<Arc<dyn Decider>>,
    encode_decider: Option<Arc<dyn Decider>>,
    /// The port of the pod that decodes, if that is not the port of its rank.
    primary_port: Option<u16>,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let flat = raw.decode_profile.is_some()
        || raw.prefill_profile.is_some()
        || raw.encode_profile.is_some()
        || raw.prefill_decider_plugin_name.is_some()
        || raw.encode_decider_plugin_name.is_some()
        || raw.decider_plugin_name.is_some();
    parameters.require(
        !flat || (raw.profiles.is_none() && raw.deciders.is_none()),
        "",
        "profiles and deciders cannot be mixed with the flat parameters",
    )?;
    let names = raw.profiles.unwrap_or(Names {
        decode: raw.decode_profile,
        prefill: raw.prefill_profile,
        encode: raw.encode_profile,
    });
    let deciders = raw.deciders.unwrap_or(Deciders {
        prefill: raw.prefill_decider_plugin_name.or(raw.decider_plugin_name),
        encode: raw.encode_decider_plugin_name,
    });
    let order = StageOrder::read(&raw.stage_order, parameters)?;
    parameters.require(
        order == StageOrder::DecodeFirst || deciders.prefill.is_none(),
        "stageOrder",
        "with prefill-first, a prefill decider has nothing to decide; remove one of them",
    )?;
    let decider = |name: &Option<String>| {
        name.as_deref().map(|name| builder.decider(parameters.name, name)).transpose()
    };
    Ok(Plugin::handler(Disagg {
        order,
        decode: names.decode.unwrap_or_else(|| "decode".to_owned()),
        prefill: names.prefill.unwrap_or_else(|| "prefill".to_owned()),
        encode: names.encode.unwrap_or_else(|| "encode".to_owned()),
        prefill_decider: decider(&deciders.prefill)?,
        encode_decider: decider(&deciders.encode)?,
        primary_port: None,
    }))
}

impl Disagg {
    /// Creates a handler that runs decode first, and then prefill if the decider chooses so.
    pub(crate) fn pair(
        decode: String,
        prefill: String,
        decider: Arc<dyn Decider>,
        primary_port: Option<u16>,
    ) -> Self {
        Self {
            order: StageOrder::DecodeFirst,
            decode,
            prefill,
            encode: "encode".to_owned(),
            prefill_decider: Some(decider),
            encode_decider: None,
            primary_port,
        }
    }

    /// Runs the decode profile on any endpoint.
    fn decode(&self, run: &mut Run<'_, '_>) -> Result<usize, ScheduleError> {
        run.profile(&self.decode).ok_or_else(|| {
            let mut endpoints = run.context.candidates.iter().map(|candidate| &candidate.endpoint);
            // The filters may also have dropped endpoints that are full.
            if endpoints.any(|endpoint| role::serves(&endpoint.labels, Stage::Decode)) {
                ScheduleError::Filtered("failed to find available decode workers".to_owned())
            } else {
                ScheduleError::NoDecodeWorkers
            }
        })
    }

    fn stage(
        run: &mut Run<'_, '_>,
        decider: Option<&Arc<dyn Decider>>,
        decode: Option<usize>,
        profile: &str,
        paired: bool,
    ) -> Option<usize> {
        let target: Option<&ProfileRun> = decode.map(|index| &run.runs[index]);
        if !decider?.decide(run.context, target) {
            return None;
        }
        match decode {
            Some(decode) if paired => run.profile_beside(profile, decode),
            _ => run.profile(profile),
        }
    }
}

impl ProfileHandler for Disagg {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        let (primary, prefill, encode) = match self.order {
            StageOrder::DecodeFirst => {
                let decode = self.decode(run)?;
                let encode =
                    Self::stage(run, self.encode_decider.as_ref(), Some(decode), &self.encode, false);
                run.context.peer.set(run.runs[decode].targets.first().copied());
                let decider = self.prefill_decider.as_ref();
                let prefill = Self::stage(run, decider, Some(decode), &self.prefill, true);
                (decode, prefill, encode)
            }
            StageOrder::PrefillFirst => {
                let encode = Self::stage(run, self.encode_decider.as_ref(), None, &self.encode, false);
                let prefill = run.profile(&self.prefill);
                run.context.peer.set(prefill.and_then(|prefill| run.runs[prefill].targets.first().copied()));
                let pair =
                    prefill.and_then(|prefill| Some((run.profile_beside(&self.decode, prefill)?, prefill)));
                if let Some((decode, prefill)) = pair {
                    (decode, Some(prefill), encode)
                } else {
                    // No decode endpoint can read the prefiller's cache, so one endpoint does both.
                    run.runs.truncate(prefill.unwrap_or(run.runs.len()));
                    run.context.peer.set(None);
                    (self.decode(run)?, None, encode)
                }
            }
        };
        let mut picked = HandlerResult::plain(primary);
        // Only one pod prefills; several may encode.
        for (header, stage, most) in
            [(sidecar_headers::PREFILL, prefill, 1), (sidecar_headers::ENCODE, encode, usize::MAX)]
        {
            match stage {
                Some(index) => {
                    let hosts: Vec<_> = run.runs[index]
                        .targets
                        .iter()
                        .take(most)
                        .map(|&target| run.context.endpoint(target).host_port.as_str())
                        .collect();
                    picked.set.push((header, hosts.join(",")));
                }
                // A header that the client sends itself would reach the sidecar, so it is removed. The reference does not
                // remove it.
                None => picked.remove.push(header),
            }
        }
        if let Some(port) = self.primary_port {
            data_parallel::send_to_port(port, run, &mut picked);
        }
        Ok(picked)
    }

    fn profiles(&self) -> Vec<&str> {
        let mut names = vec![self.decode.as_str()];
        if self.prefill_decider.is_some() || self.order == StageOrder::PrefillFirst {
            names.push(&self.prefill);
        }
        if self.encode_decider.is_some() {
            names.push(&self.encode);
        }
        names
    }
}
