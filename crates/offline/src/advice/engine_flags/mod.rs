//! Arguments of vLLM that contradict what the controller makes for it, or that vLLM does not take.

mod api_servers;
mod devices;
mod former;
pub(super) mod kv_events;
mod lora;
mod offloading;
mod pairs;
mod reading;
mod release;
mod served_name;
mod settings;
mod shell;
#[cfg(test)]
mod tests;
mod unset;
mod uses;
mod values;
mod words;

pub(super) use self::{
    api_servers::VARIABLE as API_SERVERS,
    release::{for_image, is_older},
};

use k8s_openapi::api::core::v1::Container;
use longboat_api::{
    engine::VLLM,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
    vllm,
};

use self::{
    uses::{FlagUse, Uses},
    words::words,
};
use super::probe_port;
use crate::{
    finding::Advice,
    pods::{is_shell, is_simulator, is_vllm, main_containers, placed_words},
};

/// Finds them in the arguments that layers add to the start scripts of presets, and in those of a command of one's own.
pub(super) fn check(service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, main) in main_containers(spec).filter(|(_, main)| is_vllm(main)) {
        let mut words = words(&path, main);
        all.append(&mut words.advice);
        let uses = Uses::of(&words);
        if !is_simulator(main) {
            all.extend(uses.all.iter().filter_map(|used| unknown(used, main)));
            let judged = uses.all.iter().filter(|used| !is_of_plugin(used, &uses));
            let values = judged.filter_map(values::check);
            all.extend(values.map(|advice| release::for_image(main, advice)));
            all.extend(stray_words(&uses, words.is_preset));
            all.extend(second_model(&uses));
            all.extend(no_parser(&uses));
        }
        all.extend(unset::check(&path, main, &words));
        all.extend(lora::check(&uses, &words, service, spec));
        all.extend(served_name::replaced(&uses, spec));
        if !words.is_preset && !path.contains(".worker") {
            all.extend(served_name::missing(&uses, &words.all, spec));
        }
        all.extend(devices::check(&path, main, &uses, spec));
        all.extend(api_servers::check(&path, main, &uses, service, spec));
        all.extend(offloading::check(&path, main, words.is_preset, spec));
        all.extend(other_port(&uses, main));
        all.extend(own_host(&uses));
        all.extend(pairs::check(&uses, spec.model.lora.is_some()));
        if !path.contains(".worker") {
            all.extend(no_port(&uses));
        }
        all.extend(joined(&path, main));
    }
    all
}

/// Flags whose value may be a name that the file of another flag registers.
const OF_PLUGINS: [(&str, &str); 2] =
    [("--tool-call-parser", "--tool-parser-plugin"), ("--reasoning-parser", "--reasoning-parser-plugin")];

fn is_of_plugin(used: &FlagUse<'_>, all: &Uses<'_>) -> bool {
    OF_PLUGINS.iter().any(|(flag, plugin)| used.is(flag) && all.last(plugin).is_some())
}

/// A flag that this version does not know.
fn unknown(used: &FlagUse<'_>, main: &Container) -> Option<Advice> {
    let is_new = vllm::newest::has_flag(used.name);
    if is_new && release::is_newest(main) {
        return None;
    }
    let former = former::replacement(used.name);
    let is_known = used.flag.is_some() || vllm::flags::is_known(used.name);
    if is_known && former.is_none() || used.name == "--" || !used.word.is_exact {
        return None;
    }
    let hint = if let Some(instead) = former {
        format!(
            "former versions had it, so it is right only if the image has one of them. Otherwise {instead}"
        )
    } else if is_new {
        format!("remove it, unless the image has vLLM {} or a newer one", vllm::newest::version())
    } else if used.name.starts_with("--") {
        match vllm::flags::nearest(used.name) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "remove it, unless the version in the image, or a plug-in, has it".to_owned(),
        }
    } else {
        match vllm::flags::find(&format!("-{}", used.name)) {
            Some(_) => format!("did you mean `-{}`?", used.name),
            None => "a flag begins with two hyphens".to_owned(),
        }
    };
    Some(Advice::warning(
        used.word.path.clone(),
        "UnknownFlag",
        format!(
            "has {}, which is no flag of vLLM {}: vLLM does not start with flags that it does not know",
            used.name,
            vllm::version()
        ),
        hint,
    ))
}

/// Words that are neither flags nor values.
fn stray_words(uses: &Uses<'_>, is_preset: bool) -> Option<Advice> {
    // Flags that share an item with their values have a warning of their own.
    let is_joined = |text: &str| text.split_once(' ').is_some_and(|(flag, _)| vllm::flags::is_known(flag));
    let strays: Vec<_> = uses.strays.iter().filter(|word| !is_joined(&word.text)).collect();
    let first = strays.first().filter(|_| !uses.is_open)?;
    let texts: Vec<&str> = strays.iter().map(|word| word.text.as_str()).collect();
    let hint = if first.text.starts_with(['\u{2013}', '\u{2014}', '\u{2212}']) {
        "it begins with a dash that is no hyphen: write `--` before the name of a flag".to_owned()
    } else if is_preset && texts.contains(&"serve") {
        "write flags only: the start script of the preset runs vllm serve with the model".to_owned()
    } else {
        "remove it, or put quotes around a value with spaces".to_owned()
    };
    Some(Advice::error(
        first.path.clone(),
        "StrayWord",
        format!(
            "has `{}`, which is neither a flag nor the value of one: vLLM does not start",
            texts.join(" ")
        ),
        hint,
    ))
}

/// A model beside the one that follows `vllm serve`. It is no error, because the documents that define this API write it.
fn second_model(uses: &Uses<'_>) -> Option<Advice> {
    let model = uses.last("--model").filter(|_| uses.is_model_named)?;
    Some(Advice::warning(
        model.word.path.clone(),
        "SecondModel",
        format!(
            "has {}, although the model stands after `vllm serve`: vLLM takes that one for a stray word, and does not start",
            model.name
        ),
        "remove the flag: spec.model.uri says which model is served",
    ))
}

/// Calls of tools that nothing reads.
fn no_parser(uses: &Uses<'_>) -> Option<Advice> {
    let choice = uses.last("--enable-auto-tool-choice").filter(|choice| !choice.name.starts_with("--no-"))?;
    let is_complete = !uses.is_open && uses.last("--config").is_none();
    (is_complete && uses.last("--tool-call-parser").is_none()).then(|| {
        Advice::error(
            choice.word.path.clone(),
            "FlagMissing",
            format!("has {}, with which vLLM needs --tool-call-parser: it does not start", choice.name),
            "add --tool-call-parser with the parser of the model's family",
        )
    })
}

/// A port at which no probe finds the server.
fn other_port(uses: &Uses<'_>, main: &Container) -> Option<Advice> {
    let given = uses.last("--port")?;
    let port = i32::try_from(given.number()?).ok()?;
    probe_port::replaced(VLLM.name, &given.word.path, port, main)
}

/// An address at which only the pod itself finds the server.
fn own_host(uses: &Uses<'_>) -> Option<Advice> {
    let given = uses.last("--host")?;
    let host =
        given.texts().into_iter().next().filter(|host| ["127.0.0.1", "localhost", "::1"].contains(host))?;
    Some(Advice::warning(
        given.word.path.clone(),
        "LoopbackHost",
        format!(
            "makes vLLM listen on {host}, where nobody outside of the pod reaches it: neither probes nor the picker"
        ),
        "remove --host: vLLM then listens on all addresses",
    ))
}

/// Flags with which vLLM has no HTTP server at its port.
const WITHOUT_PORT: [(&str, &str); 3] = [
    ("--grpc", "speak gRPC"),
    ("--headless", "compute for another vLLM, without a server"),
    ("--uds", "listen on a Unix socket"),
];

/// A server that no probe finds.
fn no_port(uses: &Uses<'_>) -> Option<Advice> {
    let (last, what) = WITHOUT_PORT.iter().find_map(|(flag, what)| Some((uses.last(flag)?, what)))?;
    Some(Advice::warning(
        last.word.path.clone(),
        "NoHttpServer",
        format!("has {}, which makes vLLM {what}: neither probes nor the picker reach it", last.name),
        format!("remove {}", last.name),
    ))
}

/// Flags that share one item of a list with their values. Only a shell would part them.
fn joined(path: &str, main: &Container) -> Vec<Advice> {
    if main.command.iter().flatten().next().is_some_and(|program| is_shell(program)) {
        return Vec::new();
    }
    let advice = placed_words(path, main).filter_map(|(path, item)| {
        let (flag, value) = item.split_once(' ')?;
        vllm::flags::is_known(flag).then(|| {
            Advice::warning(
                path,
                "FlagsInOneItem",
                format!("gives vLLM \"{item}\" as one argument, which is no flag of it: vLLM does not start"),
                format!("write two items: `- {flag}` and `- \"{}\"`", value.trim()),
            )
        })
    });
    advice.collect()
}
