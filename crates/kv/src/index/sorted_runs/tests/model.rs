use super::*;

async fn compare(view: &dyn IndexView, model: &Model, rng: &SimRng) {
    for _ in 0..10 {
        let wanted = key(rng.below(320));
        if let Some(found) = view.get_now(&wanted) {
            assert_eq!(found.unwrap(), model.get(&wanted).cloned());
        }
        let found = view.get(&wanted).await.unwrap();
        assert_eq!(found, model.get(&wanted).cloned(), "{wanted:?}");
    }
    for _ in 0..6 {
        let mut from = key(rng.below(320));
        let mut to = key(rng.below(320));
        if rng.below(4) == 0 {
            from = Bytes::new();
        }
        if rng.below(4) == 0 {
            to = Bytes::new();
        }
        let scan = Scan {
            from: &from,
            to: &to,
            limit: rng.below(40) as usize,
            reverse: rng.below(2) == 0,
        };
        let inside = |(key, _): &(&Bytes, &Bytes)| **key >= from && (to.is_empty() || **key < to);
        let own = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        let mut want: Vec<_> = model.iter().filter(inside).map(own).collect();
        if scan.reverse {
            want.reverse();
        }
        let more = want.len() > scan.limit;
        want.truncate(scan.limit);
        let page = view.scan(scan.clone()).await.unwrap();
        assert!(page.pairs == want, "{scan:?}");
        assert_eq!(page.more, more, "{scan:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shows_what_a_map_shows() {
    for seed in 0..12 {
        let world = SimWorld::with_disks(seed, 3);
        let rng = SimRng::new(seed);
        let mut index = create(&world, 2).await.unwrap();
        let mut model = Model::new();
        let mut held: Vec<(Arc<dyn IndexView>, Model)> = Vec::new();
        for step in 1..=90 {
            let entries = batch(&rng, rng.below(80), 300);
            put(&mut model, &entries);
            index.apply(entries, step).await.unwrap();
            assert_eq!(index.applied(), step);
            compare(&*index.view(), &model, &rng).await;
            if rng.below(6) == 0 {
                held.push((index.view(), model.clone()));
            }
            if held.len() > 4 {
                let (view, old) = held.remove(rng.below(5) as usize);
                compare(&*view, &old, &rng).await;
                check(&*view, &old).await;
            }
            if rng.below(30) == 0 {
                index.stop().await;
                index = open(&world, 2).await.unwrap();
                assert_eq!(index.applied(), step);
            }
        }
        index.settle().await;
        check(&*index.view(), &model).await;
        let status = index.status().await;
        assert!(status.merges > 0 && status.runs < 24, "{status:?}");
        assert_eq!(status.copies, 2);
        for (view, old) in &held {
            check(&**view, old).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn spans_many_blocks_and_partitions() {
    let world = SimWorld::with_disks(1, 1);
    let index = create(&world, 1).await.unwrap();
    let name = |n: u32| Bytes::from(format!("bucket/some/folder/file-{n:06}"));
    for round in 0..2 {
        let entries = (0..12_000).filter(|n| n % 2 == round);
        let entries = entries.map(|n| (name(n), Some(vec![n as u8; 400].into())));
        index
            .apply(entries.collect(), u64::from(round) + 1)
            .await
            .unwrap();
    }
    let large = vec![
        (name(77), Some(vec![7; 100_000].into())),
        (name(78), Some(vec![8; 3_000_000].into())),
    ];
    index.apply(large, 3).await.unwrap();
    let view = index.view();
    for n in 0..12_000 {
        let value = view.get(&name(n)).await.unwrap().unwrap();
        let want = [(77, 100_000), (78, 3_000_000)];
        let want = want.iter().find(|w| w.0 == n).map_or(400, |w| w.1);
        assert_eq!(value.len(), want, "{n}");
        let absent = [&name(n)[..], b"x"].concat();
        assert_eq!(view.get(&absent).await.unwrap(), None);
    }
    let up = everything(&*view, false).await;
    let mut down = everything(&*view, true).await;
    down.reverse();
    assert!(up == down);
    assert_eq!(up.len(), 12_000);
}

#[tokio::test(start_paused = true)]
async fn drops_deletions_and_the_files_they_were_in() {
    let world = SimWorld::with_disks(3, 2);
    let index = create(&world, 2).await.unwrap();
    let name = |n: u32| Bytes::from(format!("f{n:06}"));
    let all = (0..9000).map(|n| (name(n), Some("x".into())));
    index.apply(all.collect(), 1).await.unwrap();
    let old = index.view();
    let none = (0..9000).map(|n| (name(n), None));
    index.apply(none.collect(), 2).await.unwrap();
    index.settle().await;
    let status = index.status().await;
    assert_eq!((status.runs, status.entries, status.applied), (0, 0, 2));
    assert_eq!(
        everything(&*old, false).await.len(),
        9000,
        "views keep their files"
    );
    let runs = |world: &SimWorld| {
        let paths = world.disk(1).paths();
        paths.iter().filter(|p| p.ends_with(".run")).count()
    };
    assert_eq!(
        runs(&world),
        1,
        "what only the view needs, not the deletions"
    );
    drop(old);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(runs(&world), 0);
    let index = {
        index.stop().await;
        open(&world, 2).await.unwrap()
    };
    assert_eq!(index.applied(), 2);
    assert!(everything(&*index.view(), false).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn refuses_what_makes_no_sense() {
    let world = SimWorld::with_disks(4, 1);
    let index = create(&world, 1).await.unwrap();
    let twice = vec![(key(1), None), (key(1), None)];
    assert!(index.apply(twice, 1).await.is_err());
    let long = vec![(vec![1; 100_000].into(), None)];
    let error = index.apply(long, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    index.apply(Vec::new(), 9).await.unwrap();
    assert!(index.apply(Vec::new(), 8).await.is_err());
    drop(index);
    let index = open(&world, 1).await.unwrap();
    assert_eq!(index.applied(), 9);
    let other = RunConfig::new(1, LINEAGE + 1);
    let error = RunIndex::open(world.env(), disks(&world), other)
        .await
        .err();
    assert_eq!(error.unwrap().kind(), ErrorKind::NotFound);
}
