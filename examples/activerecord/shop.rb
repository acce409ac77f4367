# Likes, a flash sale, views and unread messages with ActiveRecord.
#
#   ruby shop.rb postgres:///shop
require "active_record"
require "securerandom"

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true

  # The value of a function. Not by select_value(): the query cache would answer the second dc_incr() of a request
  # without running it.
  def self.call(sql, *values) = rows(sql, *values).dig(0, 0)

  def self.rows(sql, *values) = connection.execute(sanitize_sql_array([sql, *values])).values
end

class MakeShop < ActiveRecord::Migration[6.1]
  def up
    enable_extension "dcounter"

    create_table(:posts) { |t| t.text :title, null: false }
    create_table(:likes) do |t|
      t.references :post, null: false, foreign_key: { on_delete: :cascade }, index: false
      t.text :fan, null: false
      t.index [:post_id, :fan], unique: true
    end
    # what counter_cache: true would keep in posts.likes_count
    execute "SELECT dc_create('post_likes')"
    execute "SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'now')"

    execute "SELECT dc_stock_create('seats')"
    create_table(:tickets, id: :uuid, default: nil) { |t| t.text :buyer, null: false }

    # in memory if dcounter is in shared_preload_libraries, otherwise in rows
    execute <<~SQL
      DO $$
      BEGIN
          PERFORM dc_create('views', mode => 'buffered');
      EXCEPTION WHEN object_not_in_prerequisite_state THEN
          PERFORM dc_create('views');
      END $$
    SQL

    create_table(:chat_messages) do |t|
      t.text :channel, null: false
      t.text :author, null: false
      t.text :body, null: false
    end
    execute "SELECT dc_create('messages')"
    execute "SELECT dc_unread_create('seen', 'messages')"
  end

  def down
    execute "SELECT dc_unread_drop('seen')"
    %w[messages views seats post_likes].each { |counter| execute "SELECT dc_drop('#{counter}')" }
    %i[chat_messages tickets likes posts].each { |table| drop_table table }
  end
end

# schema.rb omits the tables of dcounter, which the migration creates: they are recognized by their comments.
ActiveRecord::SchemaDumper.ignore_tables = [
  ->(table) { ActiveRecord::Base.connection.table_comment(table)&.start_with?("dcounter: ") }
]

class Like < ApplicationRecord
  belongs_to :post # without counter_cache
end

class Post < ApplicationRecord
  has_many :likes

  # Post.with_likes.order("likes_count DESC")
  scope :with_likes, -> { select("posts.*", "dc_get('post_likes', posts.id) AS likes_count") }

  def likes_count = self[:likes_count] || self.class.call("SELECT dc_get('post_likes', ?)", id)

  # True if the fan did not like it before: a second click, or the same request again, changes nothing.
  def like(fan) = Like.insert({ post_id: id, fan: fan }).any?

  def unlike(fan) = likes.where(fan: fan).delete_all
end

class Ticket < ApplicationRecord
  # Sets seats aside while the buyer pays: the id of the hold, or nil: sold out. If the answer is lost, call again with
  # the same id: it is the same hold.
  def self.hold(event, qty: 1, id: SecureRandom.uuid)
    call("SELECT dc_hold('seats', ?, ?, '10 minutes', ?)", event, qty, id)
  end

  # The buyer has paid. An error if the hold has ended, and no ticket then; called again, nothing happens.
  def self.buy(hold_id, buyer)
    transaction do
      insert({ id: hold_id, buyer: buyer })
      call("SELECT dc_hold_confirm('seats', ?)", hold_id)
    end
  end

  # The buyer cancels. Without a call the hold expires after ten minutes.
  def self.release(hold_id) = call("SELECT dc_hold_release('seats', ?)", hold_id)

  def self.left(event) = call("SELECT dc_get('seats', ?)", event)
end

class View < ApplicationRecord
  def self.count!(page) = call("SELECT dc_incr('views', ?)", page)

  def self.of(page) = call("SELECT dc_get('views', ?)", page)
end

class ChatMessage < ApplicationRecord
  after_create { self.class.call("SELECT dc_incr('messages', ?)", channel) } # in the transaction of the INSERT

  # { channel => [unread, upto] }; give upto to mark_read when the member has seen them.
  def self.unread(member, channels)
    rows("SELECT key, unread, upto FROM dc_unread('seen', ?::text, ARRAY[?])", member, channels).to_h do |channel, *numbers|
      [channel, numbers]
    end
  end

  def self.mark_read(member, channel, upto) = call("SELECT dc_mark_read('seen', ?::text, ?, ?)", member, channel, upto)
end

def tour
  post, other = Post.create!(title: "Hello"), Post.create!(title: "World")
  puts "likes: #{post.like('ann')} #{post.like('ann')} #{post.like('ben')} #{Post.with_likes.order(:id).map(&:likes_count)}"
  post.unlike("ben")
  puts "taken back: #{[post, other].map(&:likes_count)}"

  ApplicationRecord.call("SELECT dc_restock('seats', 'opening night', 2)")
  first, second, third = Array.new(3) { Ticket.hold("opening night") }
  puts "third buyer: #{third.inspect}"
  2.times { Ticket.buy(first, "ann") }
  Ticket.release(second)
  begin
    Ticket.buy(second, "ben")
  rescue ActiveRecord::StatementInvalid => error
    puts "released: #{error.cause.class}" # 55000
  end
  puts "sold: #{Ticket.count} left: #{Ticket.left('opening night')}"

  ActiveRecord::Base.cache { 3.times { View.count!("home") } } # as in a request
  puts "views: #{View.of('home')}"

  ChatMessage.create!(channel: "general", author: "ann", body: "hello")
  ChatMessage.create!(channel: "general", author: "ann", body: "anybody here?")
  seen = ChatMessage.unread("ben", %w[general random])
  puts "unread: #{seen}"
  ChatMessage.mark_read("ben", "general", seen["general"][1])
  puts "read: #{ChatMessage.unread('ben', ['general'])}"
end

if $PROGRAM_NAME == __FILE__
  ActiveRecord::Base.establish_connection(ARGV[0])
  ActiveRecord::Migration.verbose = false
  MakeShop.new.migrate(:up)
  tour
end
