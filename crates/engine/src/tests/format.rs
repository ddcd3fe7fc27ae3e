//! Making a pool, cut short anywhere.

use std::sync::Arc;

use dewar_auth::MasterKeys;
use dewar_disks::pool::DewarId;
use dewar_env::disk::sim::SimWorld;
use dewar_types::{Layout, Result};

use super::run;
use crate::{BackgroundWork, Engine, EngineConfig, Folder, FolderContent, Folders};

async fn look(world: &SimWorld) -> Folders {
    let mut all = Vec::new();
    for disk in world.dyn_disks() {
        all.push(Folder::look(disk.label().to_owned(), Ok(disk)).await);
    }
    Folders { all }
}

fn config() -> EngineConfig {
    EngineConfig::new(Layout::new(2, 1).expect("valid"))
}

async fn format(world: &SimWorld) -> Result<()> {
    Engine::format(&world.env(), &config(), DewarId(1), &look(world).await).await
}

#[test]
fn a_pool_is_made_again_after_any_crash_and_stays() {
    for (ops, killed) in (1..).flat_map(|ops| [(ops, true), (ops, false)]) {
        let done = run(async {
            let world = SimWorld::with_disks(ops, 3);
            world.crash_after(ops);
            let done = format(&world).await.is_ok();
            // What a killed process wrote can be read, but need not be durable.
            let world = match killed {
                true => world.kill(1),
                false => world.crash(1),
            };
            format(&world).await.expect("made again");
            let world = world.crash(ops);
            let folders = look(&world).await;
            for folder in &folders.all {
                assert!(
                    matches!(folder.content, FolderContent::Disk { .. }),
                    "{folder:?}"
                );
            }
            let env = world.env();
            let master = Arc::new(MasterKeys::generate(&*env.rng));
            let opened = Engine::open(
                &env,
                &config(),
                DewarId(1),
                &folders,
                master,
                BackgroundWork::Off,
            )
            .await;
            opened.expect("opened");
            done
        });
        if done && !killed {
            break;
        }
    }
}
