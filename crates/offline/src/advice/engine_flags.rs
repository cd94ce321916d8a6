//! Arguments of vLLM that contradict what the controller makes for it, or that vLLM does not know.

use k8s_openapi::{api::core::v1::Container, apimachinery::pkg::util::intstr::IntOrString};
use longboat_api::{
    engine::{Engine, VLLM},
    v1alpha2::LLMInferenceServiceSpec,
    vllm_flags,
};

use super::{Advice, main_containers};

/// One word of the arguments, and the path of the field that has it.
struct Word<'a> {
    path: String,
    text: &'a str,
}

/// Finds them in the arguments that layers add to the start scripts of presets, and in those of a script of one's own.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        if Engine::of_command(main).is_none_or(|engine| engine.name != VLLM.name) {
            continue;
        }
        let words = words(&path, main);
        all.extend(words.iter().filter_map(unknown));
        all.extend(other_name(&words, spec));
        all.extend(other_port(&words, main));
        all.extend(own_host(&words));
        all.extend(joined(&path, main));
    }
    all
}

/// The arguments in their order. An element may have several words, because start scripts evaluate them.
fn words<'a>(path: &str, main: &'a Container) -> Vec<Word<'a>> {
    let variables = main.env.iter().flatten().filter(|variable| Some(&*variable.name) == VLLM.arguments);
    let variables = variables.filter_map(|variable| {
        Some((format!("{path}.env[name={}].value", variable.name), variable.value.as_deref()?))
    });
    let args = main.args.iter().flatten().enumerate();
    let args = args.map(|(at, argument)| (format!("{path}.args[{at}]"), argument.as_str()));
    let split = |(path, text): (String, &'a str)| {
        text.split_ascii_whitespace().map(move |text| Word { path: path.clone(), text }).collect::<Vec<_>>()
    };
    variables.chain(args).flat_map(split).collect()
}

/// Returns the last use of a flag, and its values.
fn last<'a, 'w>(words: &'w [Word<'a>], flag: &str) -> Option<(&'w Word<'a>, Vec<&'a str>)> {
    let (at, inline) = words.iter().enumerate().rev().find_map(|(at, word)| {
        let name = word.text.split('=').next()?.replace('_', "-");
        (name == flag).then(|| (at, word.text.split_once('=').map(|(_, value)| value)))
    })?;
    let values = match inline {
        Some(value) => vec![value],
        None => {
            words[at + 1..].iter().map(|word| word.text).take_while(|text| !text.starts_with('-')).collect()
        }
    };
    let plain = |value: &'a str| value.trim_matches(['"', '\'']);
    Some((&words[at], values.into_iter().map(plain).collect()))
}

/// A flag with a typing error.
fn unknown(word: &Word<'_>) -> Option<Advice> {
    let flag = word.text.split('=').next().filter(|flag| flag.starts_with("--") && flag.len() > 2)?;
    let is_plain = flag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_plain || vllm_flags::is_known(flag) {
        return None;
    }
    // Other releases and plug-ins have other flags, so only a flag that is near to a known one is worth a word.
    let meant = vllm_flags::nearest(flag)?;
    Some(Advice::warning(
        word.path.clone(),
        "UnknownFlag",
        format!(
            "has {flag}, which is no flag of vLLM {}: vLLM does not start with flags that it does not know",
            vllm_flags::version()
        ),
        format!("did you mean `{meant}`?"),
    ))
}

/// Names of the model that replace the one which clients and routes use.
fn other_name(words: &[Word<'_>], spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let name = spec.model.name.as_deref().filter(|name| !name.is_empty())?;
    let (word, names) = last(words, VLLM.served_name)?;
    let is_written = !names.iter().any(|name| name.contains(['$', '{']));
    (is_written && !names.contains(&name)).then(|| {
        Advice::warning(
            word.path.clone(),
            "ServedNameReplaced",
            format!(
                "makes vLLM serve the model as {} only: requests for {name}, the name in spec.model.name, get 404",
                names.join(" ")
            ),
            format!("remove {}, and set spec.model.name", VLLM.served_name),
        )
    })
}

/// A port at which no probe finds the server.
fn other_port(words: &[Word<'_>], main: &Container) -> Option<Advice> {
    let (word, values) = last(words, "--port")?;
    let port: i32 = values.first()?.parse().ok()?;
    let probes = [&main.startup_probe, &main.readiness_probe, &main.liveness_probe];
    let ports: Vec<i32> = probes
        .into_iter()
        .flatten()
        .filter_map(|probe| match &probe.http_get.as_ref()?.port {
            IntOrString::Int(port) => Some(*port),
            IntOrString::String(_) => None,
        })
        .collect();
    let expected = ports.first().filter(|_| !ports.contains(&port))?;
    Some(Advice {
        path: word.path.clone(),
        fatal: true,
        reason: "PortReplaced",
        message: format!(
            "makes vLLM listen on port {port}, but its probes and the Service use port {expected}: no pod becomes ready"
        ),
        hint: Some("remove --port: the preset sets it".to_owned()),
    })
}

/// An address at which only the pod itself finds the server.
fn own_host(words: &[Word<'_>]) -> Option<Advice> {
    let (word, values) = last(words, "--host")?;
    let host = values.first().filter(|host| ["127.0.0.1", "localhost", "::1"].contains(host))?;
    Some(Advice::warning(
        word.path.clone(),
        "LoopbackHost",
        format!(
            "makes vLLM listen on {host}, where nobody outside of the pod reaches it: neither probes nor the picker"
        ),
        "remove --host: vLLM then listens on all addresses".to_owned(),
    ))
}

/// Flags that share one item of a list with their values. Only a shell would part them.
fn joined(path: &str, main: &Container) -> Vec<Advice> {
    let program = main.command.iter().flatten().next().and_then(|word| word.rsplit('/').next());
    if program.is_some_and(|program| ["bash", "sh", "dash", "ash"].contains(&program)) {
        return Vec::new();
    }
    let lists = [("command", &main.command), ("args", &main.args)];
    let items = lists.into_iter().flat_map(|(list, items)| {
        items.iter().flatten().enumerate().map(move |(at, item)| (list, at, item.as_str()))
    });
    let advice = items.filter_map(|(list, at, item)| {
        let (flag, value) = item.split_once(' ')?;
        vllm_flags::is_known(flag).then(|| {
            Advice::warning(
                format!("{path}.{list}[{at}]"),
                "FlagsInOneItem",
                format!("gives vLLM \"{item}\" as one argument, which is no flag of it: vLLM does not start"),
                format!("write two items: `- {flag}` and `- \"{}\"`", value.trim()),
            )
        })
    });
    advice.collect()
}
