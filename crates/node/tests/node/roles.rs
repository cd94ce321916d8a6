//! Programs that the tests run in containers: this test binary, started again with the name of one of these "tests".

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

/// Returns the stand-in for the `longboat` executable: a script that runs the roles below.
pub(crate) fn script() -> String {
    let binary = std::env::current_exe().unwrap();
    let run = |role: &str| format!("exec {} roles::{role} --exact --ignored --nocapture", binary.display());
    format!(
        "#!/bin/sh\n\
         if [ \"$1\" = reaper ]; then {reaper}; fi\n\
         if [ \"$1\" = {role} ]; then shift; exec {mounts} \"$@\"; fi\n\
         case \"${{0##*/}} $1\" in\n\
         'vllm --version') echo 0.22.1; exit 0 ;;\n\
         'vllm serve')\n\
           while [ $# -gt 0 ]; do if [ \"$1\" = --port ]; then PORT=$2; fi; shift; done\n\
           export PORT; {server} ;;\n\
         'longboat server') {server} ;;\n\
         'storage-initializer hf://large/model')\n\
           if [ -n \"$LONGBOAT_FETCH_PORT\" ]; then echo \"a port: $LONGBOAT_FETCH_PORT\" >&2; exit 3; fi\n\
           echo '{{\"files\":1,\"filesDone\":0,\"bytes\":15200000000,\"bytesDone\":3200000000,\
           \"bytesPerSecond\":210000000,\"secondsLeft\":57}}' >\"$LONGBOAT_FETCH_PROGRESS\"\n\
           while [ ! -e \"$ARRIVED\" ]; do sleep 0.05; done; exit 0 ;;\n\
         storage-initializer*) echo \"fetch=$LONGBOAT_FETCH from $1\"; exit 0 ;;\n\
         esac\n\
         echo \"no role: $0 $*\" >&2; exit 2\n",
        reaper = run("reaper"),
        role = longboat_node::mounts::ROLE,
        // A namespace needs a process with a single thread, which a test is not.
        mounts = binary.ancestors().nth(2).unwrap().join("examples/mounts").display(),
        server = run("server"),
    )
}

#[test]
#[ignore = "a program for containers, not a test"]
fn reaper() {
    longboat_node::reaper::run().unwrap();
}

/// An HTTP server on the pod's address. `/health` fails while the file in `BROKEN` exists; every other path is answered with
/// `ANSWER`.
#[test]
#[ignore = "a program for containers, not a test"]
fn server() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let listener =
        TcpListener::bind(format!("{}:{}", variable("LONGBOAT_POD_IP"), variable("PORT"))).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let request = lines.next().and_then(Result::ok).unwrap_or_default();
        while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
        let broken = request.contains("/health") && Path::new(&variable("BROKEN")).exists();
        let status = if broken { "503 Service Unavailable" } else { "200 OK" };
        let body = variable("ANSWER");
        // An error means that the client has closed the connection.
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }
}
