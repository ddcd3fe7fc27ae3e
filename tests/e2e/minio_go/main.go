// minio-go, as its users call it: PROGRAM ENDPOINT ACCESS SECRET BUCKET CHECKSUM, where CHECKSUM is one
// of minio-go's names, such as CRC32C or SHA256. It uploads an object in one request and one in parts of
// 5 MiB, both with trailing checksums, and reads both back.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

var names = map[string]minio.ChecksumType{
	"CRC32":       minio.ChecksumCRC32,
	"CRC32C":      minio.ChecksumCRC32C,
	"CRC64NVME":   minio.ChecksumCRC64NVME,
	"SHA1":        minio.ChecksumSHA1,
	"SHA256":      minio.ChecksumSHA256,
	"CRC32-FULL":  minio.ChecksumFullObjectCRC32,
	"CRC32C-FULL": minio.ChecksumFullObjectCRC32C,
	"MD5":         minio.ChecksumMD5,
	"SHA512":      minio.ChecksumSHA512,
	"XXHASH128":   minio.ChecksumXXHash128,
}

func run(endpoint, access, secret, bucket, checksum string) error {
	ctx := context.Background()
	client, err := minio.New(endpoint, &minio.Options{
		Creds:           credentials.NewStaticV4(access, secret, ""),
		Region:          "us-east-1",
		TrailingHeaders: true,
	})
	if err != nil {
		return err
	}
	kind, known := names[checksum]
	if !known && checksum != "DEFAULT" {
		return fmt.Errorf("no checksum %q", checksum)
	}
	for _, size := range []int{100_000, 11 << 20} {
		data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		key := fmt.Sprintf("%s-%d", checksum, size)
		options := minio.PutObjectOptions{PartSize: 5 << 20, Checksum: kind}
		for _, length := range []int64{int64(len(data)), -1} {
			// Of unknown length, it is uploaded in parts whatever its size.
			_, err := client.PutObject(ctx, bucket, key, bytes.NewReader(data), length, options)
			if err != nil {
				return fmt.Errorf("put %s, length %d: %w", key, length, err)
			}
			object, err := client.GetObject(ctx, bucket, key, minio.GetObjectOptions{Checksum: true})
			if err != nil {
				return fmt.Errorf("get %s: %w", key, err)
			}
			read, err := io.ReadAll(object)
			if err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			if !bytes.Equal(read, data) {
				return fmt.Errorf("%s has other bytes", key)
			}
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "ENDPOINT ACCESS SECRET BUCKET CHECKSUM")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
