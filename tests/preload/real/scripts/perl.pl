# Hashes, strings, regular expressions, sorting, closures, forks with pipes and, where Perl has them,
# threads, each of which clones everything.
use strict;
use warnings;
use Config;

my %words;
for my $n (1 .. 200_000) {
    my $word = 'word' . ($n * 7919 % 40_009);
    $words{$word}{count}++;
    push @{ $words{$word}{places} }, $n if $n % 3 == 0;
}
my @most = (sort { $words{$b}{count} <=> $words{$a}{count} || $a cmp $b } keys %words)[0 .. 9];
print "$_ $words{$_}{count} @{ $words{$_}{places} || [] }\n" for @most;
delete $words{$_} for grep { /[13579]$/ } keys %words;
print scalar(keys %words), " words are left\n";

my $text = join ' ', map { ('lorem', 'ipsum', 'dolor')[$_ % 3] . $_ } 1 .. 50_000;
(my $changed = $text) =~ s/(\w+?)(\d+)/$2 . reverse $1/ge;
print length($changed), ' ', unpack('%32C*', $changed), "\n";
my @long = $text =~ /\b(ip\w+99)\b/g;
print "@long\n";
print unpack('%32C*', pack('N*', map { $_ * $_ } 1 .. 10_000)), "\n";

my @later = map { my $n = $_; sub { 'x' x ($n % 700) } } 1 .. 20_000;
my $sum = 0;
$sum += length $_->() for @later;
print "$sum\n";

# What each child writes comes through its own pipe, and is read in order.
my @pipes;
for my $n (1 .. 20) {
    my $pid = open my $pipe, '-|';
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        my %own = map { $_ => 'y' x $_ } 1 .. 300;
        print "child $n: ", length(join '', values %own), "\n";
        exit 0;
    }
    push @pipes, $pipe;
}
for my $pipe (@pipes) {
    print <$pipe>;
    close $pipe or die 'a child failed';
}

if ($Config{usethreads}) {
    require threads;
    my @threads = map {
        my $n = $_;
        threads->create(sub {
            my @list = map { "$n.$_" } 1 .. 5000;
            delete @words{ grep { /$n$/ } keys %words };
            return length(join ',', sort @list) + keys %words;
        });
    } 0 .. 7;
    print 'threads: ', join(' ', map { $_->join } @threads), "\n";
    print scalar(keys %words), " words are still left\n";
}
