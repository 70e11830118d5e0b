import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Where a Java machine uses malloc: threads, direct buffers, zlib, classes, files, processes. */
public final class Work {
    interface Shape {
        double area();
    }

    record Circle(double radius) implements Shape {
        public double area() {
            return Math.floor(radius * radius * 3);
        }
    }

    record Square(double side) implements Shape {
        public double area() {
            return side * side;
        }
    }

    static String deflate(int n) throws Exception {
        byte[] text = ("text " + n + " ").repeat(20_000).getBytes(StandardCharsets.UTF_8);
        Deflater deflater = new Deflater();
        deflater.setInput(text);
        deflater.finish();
        byte[] packed = new byte[text.length];
        int length = deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, length);
        byte[] unpacked = new byte[text.length];
        int back = inflater.inflate(unpacked);
        inflater.end();
        CRC32 crc = new CRC32();
        crc.update(unpacked);
        return length + " " + (back == text.length) + " " + Long.toHexString(crc.getValue());
    }

    static long buffers(int n) {
        long sum = 0;
        List<ByteBuffer> kept = new ArrayList<>();
        for (int i = 1; i < 400; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(i * 97 % 50_000 + 1);
            while (buffer.hasRemaining()) {
                buffer.put((byte) (i ^ n));
            }
            if (i % 4 == 0) {
                kept.add(buffer);
            }
        }
        for (ByteBuffer buffer : kept) {
            sum += buffer.capacity() * (long) buffer.get(0);
        }
        return sum;
    }

    static String work(int n) throws Exception {
        TreeMap<String, Integer> words = new TreeMap<>();
        for (int i = 0; i < 50_000; i++) {
            words.merge("word" + (i * 31 + n) % 1009, 1, Integer::sum);
        }
        double area = IntStream.range(0, 10_000)
            .mapToObj(i -> i % 2 == 0 ? (Shape) new Circle(i) : new Square(i))
            .mapToDouble(Shape::area)
            .sum();
        return n + ": " + words.firstEntry() + " " + area + " " + deflate(n) + " " + buffers(n);
    }

    public static void main(String[] arguments) throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        List<Future<String>> results = new ArrayList<>();
        for (int n = 0; n < 32; n++) {
            final int number = n;
            results.add(pool.submit(() -> work(number)));
        }
        for (Future<String> result : results) {
            System.out.println(result.get());
        }
        pool.shutdown();
        System.out.println(IntStream.rangeClosed(1, 1_000_000).parallel().mapToLong(i -> i).sum());
        for (int i = 0; i < 200; i++) {
            Thread thread = new Thread(() -> ByteBuffer.allocateDirect(1000));
            thread.start();
            thread.join();
        }
        System.gc();
        Path file = Files.writeString(Path.of("file"), "line\n".repeat(100_000));
        System.out.println(Files.readAllLines(file).size());
        Process process = new ProcessBuilder("sort", "-u", "file").start();
        System.out.print(new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
        System.out.println(process.waitFor());
    }
}
