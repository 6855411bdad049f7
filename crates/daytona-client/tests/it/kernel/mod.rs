//! With real boxes, over a real `holm serve`.

mod files;
mod git;
mod lifecycle;
mod processes;

use std::time::Duration;

use holm_daytona_client::wire::sandbox::{CreateSandbox, Sandbox};
use holm_daytona_client::{Client, Settings, Toolbox};
use holm_testserver::TestServer;

const PATIENCE: Duration = Duration::from_secs(30);

fn client_of(server: &TestServer) -> Client {
    Client::new(Settings::new(server.api_url(), server.api_key())).unwrap()
}

async fn started(client: &Client) -> Sandbox {
    let request = CreateSandbox::default();
    client.create_started(request, PATIENCE).await.unwrap()
}

/// Does something with the toolbox of a new sandbox.
fn with_toolbox(test: impl AsyncFnOnce(Toolbox)) {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let sandbox = started(&client).await;
        test(client.toolbox(&sandbox).await.unwrap()).await;
    });
}
