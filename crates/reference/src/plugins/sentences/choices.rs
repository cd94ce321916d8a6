//! Pickers, deciders and profile handlers.

use super::{COUNT, Description, IGNORED, described};

pub(super) const PLUGINS: &[Description] = &[
    described(
        "max-score-picker",
        "Picks the pod with the highest score, or a random pod among equals.",
        COUNT,
    ),
    described("random-picker", "Picks a random candidate, without regard to its score.", COUNT),
    described("weighted-random-picker", "Picks a random candidate, in proportion to its score.", COUNT),
    described("always-disagg-pd-decider", "Sends every request to a prefill pod first.", &[]),
    described(
        "prefix-based-pd-decider",
        "Sends a request to a prefill pod first if the decode pod lacks enough tokens of the prompt in its cache.",
        &[
            (
                "nonCachedTokens",
                "Minimum number of prompt tokens that the decode pod has not cached. Default 0: no request goes to a prefill pod.",
            ),
            ("promptTokens", "Minimum number of tokens of the prompt. Default 0."),
        ],
    ),
    described(
        "always-disagg-multimodal-decider",
        "Sends requests with images, audio or video to an encode pod first.",
        &[],
    ),
    described("single-profile-handler", "Runs the only profile.", &[]),
    described(
        "disagg-profile-handler",
        "Runs the profile `decode`, and also `prefill` or `encode` if a decider chooses so.",
        &[
            ("stageOrder", "`decode-first` (default) or `prefill-first`."),
            ("profiles", "Names of the profiles: `decode`, `prefill`, `encode`."),
            ("deciders", "Names of the deciders: `prefill`, `encode`."),
            ("decodeProfile", "Former spelling of `profiles.decode`."),
            ("prefillProfile", "Former spelling of `profiles.prefill`."),
            ("encodeProfile", "Former spelling of `profiles.encode`."),
            ("prefillDeciderPluginName", "Former spelling of `deciders.prefill`."),
            ("encodeDeciderPluginName", "Former spelling of `deciders.encode`."),
        ],
    ),
    described(
        "pd-profile-handler",
        "Deprecated: use `disagg-profile-handler`. Runs decode, and also prefill above a threshold.",
        &[
            (
                "threshold",
                "Minimum number of prompt tokens that the decode pod has not cached. 0: no request goes to a prefill pod.",
            ),
            ("prefillProfile", "Name of the profile that prefills. Default `prefill`."),
            ("decodeProfile", "Name of the profile that decodes. Default `decode`."),
            ("deciderPluginName", "Name of a decider, which replaces the threshold."),
            ("hashBlockSize", IGNORED),
            ("primaryPort", IGNORED),
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    described(
        "data-parallel-profile-handler",
        "Sends the request to one port of the pod, and names the data-parallel rank in a header.",
        &[("primaryPort", "Port of the pod. Default 8000.")],
    ),
    described("header-profile-handler", "Runs the profile that a header of the request names.", &[]),
    described(
        "disagg-headers-handler",
        "Sends the address of the prefill pod to the sidecar in a header. Always active, declared or not.",
        &[],
    ),
    described("prefill-header-handler", "Former name of `disagg-headers-handler`.", &[]),
];
