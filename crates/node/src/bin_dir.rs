//! The `bin` folder, which comes first in the PATH of containers.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use longboat_api::engine::VLLM;

use crate::container::roles;
use crate::options::Engine;
use crate::private;

/// Fills `dir` with a link to `executable` for every role, and with the engine that replaces `vllm` or another server.
///
/// An engine that is a shell command line gets a script as its replacement. The script looks the command up outside of this
/// folder, so the command itself may be called `vllm`. The script passes the pod's address to servers, and replaces `*` in
/// addresses of ZeroMQ by it: pods share one network, so two that bind all addresses would conflict on a port. vLLM listens
/// at an address for KV events only if it has `*` or `::`, and connects to others; so the address has its IPv6 form.
pub(crate) fn create(dir: &Path, executable: &Path, engine: &Engine) -> io::Result<()> {
    private::create_dir(dir)?;
    for link in roles::LINKS {
        let path = dir.join(link);
        // A kept state folder has the links of an earlier node, perhaps for another engine.
        private::if_found(fs::remove_file(&path))?;
        match engine {
            Engine::Command(command) if *link == "vllm" && engine.label() == VLLM.label => {
                fs::write(&path, engine_script(dir, command, "serve|launch"))?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
            }
            Engine::Cpu(program) if *link == "vllm" => symlink(program, &path)?,
            _ => symlink(executable, &path)?,
        }
    }
    let pythons = ["python", "python3"].map(|name| (name, python_script(dir, name)));
    let servers = roles::SERVERS.iter().map(|server| {
        let script = match engine {
            Engine::Command(command) if engine.label() == server.label => engine_script(dir, command, "*"),
            _ => server_script(dir, server.simulator),
        };
        (server.program, script)
    });
    for (name, script) in pythons.into_iter().chain(servers) {
        let path = dir.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Runs the simulator in place of SGLang, which is a module of Python, and any other program in the real Python.
fn python_script(dir: &Path, name: &str) -> String {
    let dir = dir.display();
    let simulator = roles::SGLANG.join(" ");
    format!(
        "#!/bin/sh\n\
         if [ \"$1\" = -m ] && [ \"$2\" = {module} ]; then\n\
         shift 2\n\
         exec {dir}/longboat {simulator} \"$@\"\n\
         fi\n\
         PATH=\"${{PATH#{dir}:}}\"\n\
         export PATH\n\
         exec {name} \"$@\"\n",
        module = roles::SGLANG_MODULE,
    )
}

/// Runs the simulator in place of the server of an engine.
fn server_script(dir: &Path, arguments: &[&str]) -> String {
    format!("#!/bin/sh\nexec {}/longboat {} \"$@\"\n", dir.display(), arguments.join(" "))
}

/// Runs the engine's command. It gets the pod's address if its first argument is like this pattern of a shell. vLLM finds the
/// address for its own connections, and that of NIXL, in variables.
fn engine_script(dir: &Path, command: &str, servers: &str) -> String {
    format!(
        "#!/bin/sh\n\
         PATH=\"${{PATH#{dir}:}}\"\n\
         VLLM_HOST_IP=\"${{VLLM_HOST_IP:-$LONGBOAT_POD_IP}}\"\n\
         VLLM_NIXL_SIDE_CHANNEL_HOST=\"${{VLLM_NIXL_SIDE_CHANNEL_HOST:-$LONGBOAT_POD_IP}}\"\n\
         export PATH VLLM_HOST_IP VLLM_NIXL_SIDE_CHANNEL_HOST\n\
         for argument; do\n\
           shift\n\
           while case \"$argument\" in *tcp://\\*:*) ;; *) false ;; esac; do\n\
             argument=\"${{argument%%tcp://\\*:*}}tcp://[::ffff:$LONGBOAT_POD_IP]:${{argument#*tcp://\\*:}}\"\n\
           done\n\
           set -- \"$@\" \"$argument\"\n\
         done\n\
         case \"$1\" in\n\
         {servers}) exec {command} \"$@\" --host \"$LONGBOAT_POD_IP\" ;;\n\
         *) exec {command} \"$@\" ;;\n\
         esac\n",
        dir = dir.display()
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_role_is_a_link_and_the_engine_a_script_that_adds_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        create(&bin, Path::new("/bin/echo"), &Engine::Command("echo engine".into())).unwrap();
        create(&bin, Path::new("/bin/echo"), &Engine::Command("echo engine".into())).unwrap();
        assert_eq!(fs::read_link(bin.join("epp")).unwrap(), Path::new("/bin/echo"));
        let output = |args: &[&str]| {
            let out = Command::new(bin.join("vllm"))
                .args(args)
                .env("LONGBOAT_POD_IP", "127.64.0.1")
                .output()
                .unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        assert_eq!(
            output(&["serve", "/m", "--port", "8000"]),
            "engine serve /m --port 8000 --host 127.64.0.1\n"
        );
        assert_eq!(output(&["--version"]), "engine --version\n");
        assert_eq!(output(&["launch", "render", "/m"]), "engine launch render /m --host 127.64.0.1\n");
        let events = r#"{"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558", "topic": "*"}"#;
        assert_eq!(
            output(&["serve", events, "tcp://10.0.0.1:1"]),
            "engine serve {\"endpoint\": \"tcp://[::ffff:127.64.0.1]:5557\", \
             \"replay_endpoint\": \"tcp://[::ffff:127.64.0.1]:5558\", \"topic\": \"*\"} tcp://10.0.0.1:1 --host 127.64.0.1\n"
        );
        let python = |args: &[&str]| {
            let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
            let out = Command::new(bin.join("python3")).args(args).env("PATH", path).output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        assert_eq!(
            python(&["-m", "sglang.launch_server", "--port", "8000", "a b"]),
            "sim --simulated-engine=sglang --port 8000 a b\n"
        );
        assert!(!python(&["-m", "other"]).contains("sim"));
        let out = Command::new(bin.join("llama-server")).args(["--alias", "a b"]).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "sim --simulated-engine=llamacpp --alias a b\n");
    }

    #[test]
    fn a_command_that_starts_the_server_of_an_engine_runs_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("llama-server");
        fs::write(&own, "#!/bin/sh\necho own \"$@\"\n").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        let bin = dir.path().join("bin");
        let engine = Engine::Command(format!("{} --threads 1", own.display()));
        create(&bin, Path::new("/bin/echo"), &engine).unwrap();
        let output = |program: &str| {
            let mut command = Command::new(bin.join(program));
            let out =
                command.args(["--host", "0.0.0.0"]).env("LONGBOAT_POD_IP", "127.64.0.1").output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        assert_eq!(output("llama-server"), "own --threads 1 --host 0.0.0.0 --host 127.64.0.1\n");
        assert_eq!(output("trtllm-serve"), "sim --simulated-engine=trtllm-serve --host 0.0.0.0\n");
        assert_eq!(fs::read_link(bin.join("vllm")).unwrap(), Path::new("/bin/echo"));
    }
}
